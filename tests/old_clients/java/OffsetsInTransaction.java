import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

/** BOOTSTRAP TRANSACTIONAL-ID GROUP TOPIC OFFSET: commits an offset in a transaction, with 0.11 and newer. */
public final class OffsetsInTransaction {
    private static final String SERIALIZER = "org.apache.kafka.common.serialization.StringSerializer";

    public static void main(String[] args) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("transactional.id", args[1]);
        settings.put("key.serializer", SERIALIZER);
        settings.put("value.serializer", SERIALIZER);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.initTransactions();
            producer.beginTransaction();
            OffsetAndMetadata offset = new OffsetAndMetadata(Long.parseLong(args[4]));
            producer.sendOffsetsToTransaction(Collections.singletonMap(new TopicPartition(args[3], 0), offset), args[2]);
            producer.commitTransaction();
        }
    }
}
