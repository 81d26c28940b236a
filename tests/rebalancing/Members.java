import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * BOOTSTRAP SESSION_MS: members of consumer groups as in members.py, each a thread. Lines of standard input, their words
 * separated by tabs: `join NAME TOPIC GROUP STRATEGY INSTANCE`, `leave NAME`; at its end all leave.
 */
public class Members {
    static final int BATCH = 100;
    static final Duration POLL = Duration.ofMillis(100);
    static final long COMMIT_EVERY_NS = 300_000_000L;
    static final Map<String, String> STRATEGIES = Map.of(
            "range", "org.apache.kafka.clients.consumer.RangeAssignor",
            "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
            "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    static class Member extends Thread implements ConsumerRebalanceListener {
        final String name;
        final String topic;
        final Properties settings = new Properties();
        final Map<TopicPartition, OffsetAndMetadata> uncommitted = new HashMap<>();
        KafkaConsumer<String, String> consumer;
        volatile boolean ended;
        boolean closed;
        long commitAt = System.nanoTime();

        Member(String bootstrap, String sessionMs, String[] words) {
            name = words[1];
            topic = words[2];
            settings.put("bootstrap.servers", bootstrap);
            settings.put("group.id", words[3]);
            settings.put("group.protocol", "classic");
            settings.put("partition.assignment.strategy", STRATEGIES.get(words[4]));
            if (words.length > 5) settings.put("group.instance.id", words[5]);
            settings.put("session.timeout.ms", sessionMs);
            settings.put("heartbeat.interval.ms", "300");
            settings.put("max.poll.interval.ms", "30000");
            settings.put("auto.offset.reset", "none");
            settings.put("enable.auto.commit", "false");
            settings.put("max.poll.records", String.valueOf(BATCH));
        }

        void say(String event, String more) {
            int generation = closed ? -1 : consumer.groupMetadata().generationId();
            String line = "{\"t\": " + System.nanoTime() + ", \"m\": \"" + name + "\", \"e\": \"" + event
                    + "\", \"g\": " + generation + more + "}\n";
            synchronized (System.out) {
                System.out.print(line);
                System.out.flush();
            }
        }

        static String partitions(Collection<TopicPartition> partitions) {
            return ", \"p\": " + partitions.stream().map(TopicPartition::partition).sorted().collect(Collectors.toList());
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> added) {
            say("assigned", partitions(consumer.assignment()));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            commit();
            gone("revoked", revoked);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> lost) {
            gone("lost", lost);
        }

        void gone(String event, Collection<TopicPartition> partitions) {
            uncommitted.keySet().removeAll(partitions);
            if (!partitions.isEmpty()) say(event, partitions(partitions));
        }

        void commit() {
            if (uncommitted.isEmpty()) return;
            commitAt = System.nanoTime() + COMMIT_EVERY_NS;
            try {
                consumer.commitSync(uncommitted);
            } catch (KafkaException error) {
                say("commit_failed", ", \"why\": \"" + error.getClass().getSimpleName() + "\"");
                return;
            }
            Map<Integer, Long> offsets = new TreeMap<>();
            uncommitted.forEach((partition, offset) -> offsets.put(partition.partition(), offset.offset()));
            say("committed", ", \"c\": " + offsets.entrySet().stream()
                    .map(entry -> "\"" + entry.getKey() + "\": " + entry.getValue())
                    .collect(Collectors.joining(", ", "{", "}")));
            uncommitted.clear();
        }

        void process() {
            StringBuilder numbers = new StringBuilder();
            for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                numbers.append(numbers.length() == 0 ? "[" : ", [").append(record.partition()).append(", ")
                        .append(record.offset()).append(", ").append(record.value()).append("]");
                uncommitted.put(
                        new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
            }
            if (numbers.length() > 0) say("records", ", \"r\": [" + numbers + "]");
            if (System.nanoTime() >= commitAt) commit();
        }

        @Override
        public void run() {
            try {
                consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
                say("joining", "");
                consumer.subscribe(List.of(topic), this);
                while (!ended) process();
                commit();
                say("leaving", "");
                consumer.close();
                closed = true;
                say("left", "");
            } catch (Throwable error) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        Map<String, Member> members = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            if (words[0].equals("join")) {
                Member member = new Member(args[0], args[1], words);
                members.put(member.name, member);
                member.start();
            } else {
                members.get(words[1]).ended = true;
            }
        }
        for (Member member : members.values()) {
            member.ended = true;
            member.join();
        }
    }
}
