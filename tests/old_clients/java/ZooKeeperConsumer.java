import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.KafkaStream;
import kafka.consumer.Whitelist;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;

/**
 * The first consumer of groups, in Scala (0.8.2 to 1.1), told nothing but a ZooKeeper: ZOOKEEPER TOPICS GROUP STORAGE,
 * TOPICS a regular expression, STORAGE of offsets zookeeper, kafka or kafka+dual (in both: dual.commit.enabled), and
 * then, if it is to commit by itself, every how many milliseconds.
 *
 * It prints a line "TOPIC PARTITION OFFSET VALUE" for each record. Told "commit" by standard input it commits what it
 * has printed, and prints "committed"; at the end of its input it leaves the group, and ends. One that commits by itself
 * commits what it has printed, or is about to.
 */
public final class ZooKeeperConsumer {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("zookeeper.connect", args[0]);
        settings.put("group.id", args[2]);
        settings.put("offsets.storage", args[3].split("\\+")[0]);
        settings.put("dual.commit.enabled", String.valueOf(args[3].endsWith("+dual")));
        settings.put("auto.commit.enable", String.valueOf(args.length > 4));
        if (args.length > 4)
            settings.put("auto.commit.interval.ms", args[4]);
        settings.put("auto.offset.reset", "smallest");
        settings.put("rebalance.backoff.ms", "250");
        settings.put("rebalance.max.retries", "10");
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(settings));
        List<KafkaStream<byte[], byte[]>> streams = connector.createMessageStreamsByFilter(new Whitelist(args[1]), 1);
        Thread reading = new Thread(() -> {
            for (MessageAndMetadata<byte[], byte[]> each : streams.get(0))
                say(each.topic() + " " + each.partition() + " " + each.offset() + " "
                    + new String(each.message(), StandardCharsets.UTF_8));
        });
        reading.start();
        BufferedReader told = new BufferedReader(new InputStreamReader(System.in));
        for (String word = told.readLine(); word != null; word = told.readLine()) {
            if (!word.equals("commit"))
                throw new IllegalArgumentException(word);
            connector.commitOffsets();
            say("committed");
        }
        connector.shutdown();
        reading.join();
        System.exit(0); // some threads stay behind
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private ZooKeeperConsumer() {}
}
