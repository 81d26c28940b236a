import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** BOOTSTRAP GROUP INSTANCE TRANSACTIONAL-ID FROM TO: as copying_producer.py, with Kafka's own clients. */
public class CopyingProducer {
    static final int START_ANEW = 3;

    public static void main(String[] args) {
        Properties both = new Properties();
        both.put("bootstrap.servers", args[0]);
        both.put("reconnect.backoff.ms", "20");
        both.put("reconnect.backoff.max.ms", "200");
        Properties forConsumer = new Properties();
        forConsumer.putAll(both);
        forConsumer.put("group.id", args[1]);
        if (!args[2].isEmpty()) forConsumer.put("group.instance.id", args[2]);
        forConsumer.put("auto.offset.reset", "earliest");
        forConsumer.put("enable.auto.commit", "false");
        forConsumer.put("isolation.level", "read_committed");
        forConsumer.put("session.timeout.ms", "4000");
        forConsumer.put("heartbeat.interval.ms", "300");
        forConsumer.put("max.poll.records", "7");
        Properties forProducer = new Properties();
        forProducer.putAll(both);
        forProducer.put("transactional.id", args[3]);
        forProducer.put("transaction.timeout.ms", "10000");
        forProducer.put("max.block.ms", "30000");
        try (KafkaConsumer<String, String> consumer =
                        new KafkaConsumer<>(forConsumer, new StringDeserializer(), new StringDeserializer());
                KafkaProducer<String, String> producer =
                        new KafkaProducer<>(forProducer, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(args[4]));
            int number = 0;
            int copied = 0;
            while (true) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) continue;
                number++;
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(args[5], record.partition(), record.key(), record.value()));
                    offsets.put(
                            new TopicPartition(record.topic(), record.partition()),
                            new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (number % 5 == 0) {
                    producer.abortTransaction();
                    Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
                    for (TopicPartition at : consumer.assignment()) {
                        OffsetAndMetadata found = committed.get(at);
                        consumer.seek(at, found == null ? 0 : found.offset());
                    }
                    continue;
                }
                producer.commitTransaction();
                copied += records.count();
                System.out.println("copied " + copied);
                System.out.flush();
            }
        } catch (KafkaException error) {
            System.err.println("starting anew: " + error);
            System.exit(START_ANEW);
        }
    }
}
