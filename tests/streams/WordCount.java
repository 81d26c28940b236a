import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Produced;

/**
 * BOOTSTRAP APPLICATION GUARANTEE PROTOCOL STATE-FOLDER FROM TO: how often each word was seen, a record for every one seen.
 * SIGTERM: it commits and ends, and its place in the group is taken when its session has run out, as Kafka has it.
 */
public class WordCount {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("application.id", args[1]);
        settings.put("processing.guarantee", args[2]);
        settings.put("group.protocol", args[3]);
        settings.put("state.dir", args[4]);
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        settings.put("commit.interval.ms", "100");
        settings.put("statestore.cache.max.bytes", "0"); // so that no count is left out
        // However far behind it is, an instance that joins gets its share at once.
        settings.put("acceptable.recovery.lag", String.valueOf(Long.MAX_VALUE));
        if (args[3].equals("classic")) { // with the other one they are the brokers' to say
            settings.put("consumer.session.timeout.ms", "6000");
            settings.put("consumer.heartbeat.interval.ms", "300");
        }
        settings.put("producer.transaction.timeout.ms", "5000");

        StreamsBuilder topology = new StreamsBuilder();
        topology.<String, String>stream(args[5])
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word)
                .count()
                .toStream()
                .to(args[6], Produced.with(Serdes.String(), Serdes.Long()));

        KafkaStreams streams = new KafkaStreams(topology.build(), settings);
        CountDownLatch failed = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            failed.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        failed.await();
        System.exit(1);
    }
}
