import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Properties;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;

/** The first consumer of groups, in Scala (0.8.2): ZooKeeper tells it brokers and partitions; offsets are in Kafka. */
public final class HighLevelConsumer {
    public static void main(String[] args) {
        Contract.run(args, null, HighLevelConsumer::consume);
    }

    private static void consume(String bootstrap, String topic, String group, int count, String zookeeper) {
        Properties settings = new Properties();
        settings.put("zookeeper.connect", zookeeper);
        settings.put("group.id", group);
        settings.put("offsets.storage", "kafka");
        settings.put("dual.commit.enabled", "false");
        settings.put("auto.commit.enable", "false");
        settings.put("auto.offset.reset", "smallest");
        settings.put("consumer.timeout.ms", "20000");
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(settings));
        ConsumerIterator<byte[], byte[]> records =
            connector.createMessageStreams(Collections.singletonMap(topic, 1)).get(topic).get(0).iterator();
        for (int left = count; left > 0; left--) {
            MessageAndMetadata<byte[], byte[]> each = records.next();
            Contract.print(each.offset(), text(each.key()), text(each.message()), null);
        }
        connector.commitOffsets();
        connector.shutdown();
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }
}
