import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** The Java producer, 0.8.2 and newer. */
public final class JavaProducer {
    private static final String SERIALIZER = "org.apache.kafka.common.serialization.StringSerializer";

    public static void main(String[] args) {
        Contract.run(args, JavaProducer::produce, null);
    }

    static List<Long> produce(String bootstrap, String topic, String codec, List<String[]> records) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("acks", "all");
        settings.put("compression.type", codec);
        settings.put("linger.ms", "50"); // so that there is more than one record to compress; 0.8.2 cannot flush
        settings.put("retries", "10");
        settings.put("max.in.flight.requests.per.connection", "1"); // what is tried again stays in its order
        settings.put("key.serializer", SERIALIZER);
        settings.put("value.serializer", SERIALIZER);
        List<Long> offsets = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (String[] each : records)
                sent.add(producer.send(new ProducerRecord<>(topic, 0, each[0], each[1])));
            for (Future<RecordMetadata> each : sent)
                offsets.add(each.get().offset());
        }
        return offsets;
    }
}
