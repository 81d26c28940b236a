import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import kafka.api.ConsumerMetadataRequest;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.cluster.Broker;
import kafka.common.OffsetAndMetadata;
import kafka.common.OffsetMetadataAndError;
import kafka.common.TopicAndPartition;
import kafka.javaapi.ConsumerMetadataResponse;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetCommitRequest;
import kafka.javaapi.OffsetFetchRequest;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.OffsetResponse;
import kafka.javaapi.PartitionMetadata;
import kafka.javaapi.TopicMetadata;
import kafka.javaapi.TopicMetadataRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.message.MessageAndOffset;
import kafka.network.BlockingChannel;

/** SimpleConsumer (0.8.2): its user finds leader and coordinator, and keeps the group's offset there (v1: in Kafka). */
public final class SimpleReader {
    private static final String NAME = "simple-reader";
    private static final int TIMEOUT_MS = 10_000;
    private static final int BUFFER = 65_536;
    private static final int FETCH_SIZE = 1_000_000;
    private static final int PAUSE_MS = 100;
    private static final short IN_KAFKA = 1;
    private static final short UNKNOWN_TOPIC_OR_PARTITION = 3; // in an offset's place: there is none

    private final TopicAndPartition partition;
    private final String group;

    private SimpleReader(String topic, String group) {
        this.partition = new TopicAndPartition(topic, 0);
        this.group = group;
    }

    public static void main(String[] args) {
        Contract.run(args, null, (bootstrap, topic, group, count, zookeeper) -> {
            String[] address = bootstrap.split(":");
            new SimpleReader(topic, group).read(address[0], Integer.parseInt(address[1]), count);
        });
    }

    private void read(String host, int port, int count) throws Exception {
        Broker leader = leader(host, port);
        Broker coordinator = coordinator(host, port);
        SimpleConsumer offsets = consumer(coordinator.host(), coordinator.port());
        SimpleConsumer consumer = consumer(leader.host(), leader.port());
        long next = committed(offsets);
        if (next < 0)
            next = earliest(consumer);
        for (int left = count; left > 0; ) {
            FetchResponse fetched = consumer.fetch(new FetchRequestBuilder().clientId(NAME).maxWait(500).minBytes(1)
                .addFetch(partition.topic(), 0, next, FETCH_SIZE).build());
            check("Fetch", fetched.errorCode(partition.topic(), 0));
            for (MessageAndOffset each : fetched.messageSet(partition.topic(), 0)) {
                if (each.offset() < next)
                    continue; // of a compressed message all are given
                if (left-- == 0)
                    break;
                Contract.print(each.offset(), text(each.message().key()), text(each.message().payload()), null);
                next = each.nextOffset();
            }
        }
        commit(offsets, next);
        consumer.close();
        offsets.close();
    }

    private Broker leader(String host, int port) throws InterruptedException {
        SimpleConsumer any = consumer(host, port);
        try {
            while (true) {
                List<TopicMetadata> topics = any.send(
                    new TopicMetadataRequest(Collections.singletonList(partition.topic()))).topicsMetadata();
                for (TopicMetadata topic : topics)
                    for (PartitionMetadata each : topic.partitionsMetadata())
                        if (each.partitionId() == 0 && each.leader() != null)
                            return each.leader();
                Thread.sleep(PAUSE_MS);
            }
        } finally {
            any.close();
        }
    }

    private Broker coordinator(String host, int port) throws InterruptedException {
        BlockingChannel channel = new BlockingChannel(host, port, BUFFER, BUFFER, TIMEOUT_MS);
        channel.connect();
        try {
            while (true) {
                channel.send(new ConsumerMetadataRequest(group, ConsumerMetadataRequest.CurrentVersion(), 1, NAME));
                ConsumerMetadataResponse found = ConsumerMetadataResponse.readFrom(channel.receive().buffer());
                if (found.errorCode() == 0)
                    return found.coordinator();
                Thread.sleep(PAUSE_MS); // the cluster's offsets topic is being made
            }
        } finally {
            channel.disconnect();
        }
    }

    private long committed(SimpleConsumer coordinator) throws InterruptedException {
        while (true) {
            OffsetMetadataAndError found = coordinator.fetchOffsets(new OffsetFetchRequest(
                group, Collections.singletonList(partition), IN_KAFKA, 1, NAME)).offsets().get(partition);
            if (found.error() == UNKNOWN_TOPIC_OR_PARTITION)
                return -1;
            if (found.error() == 0)
                return found.offset();
            if (!passes(found.error()))
                check("OffsetFetch", found.error());
            Thread.sleep(PAUSE_MS);
        }
    }

    private long earliest(SimpleConsumer leader) {
        PartitionOffsetRequestInfo first = new PartitionOffsetRequestInfo(kafka.api.OffsetRequest.EarliestTime(), 1);
        OffsetResponse found = leader.getOffsetsBefore(new OffsetRequest(
            Collections.singletonMap(partition, first),
            kafka.api.OffsetRequest.CurrentVersion(), NAME));
        check("ListOffsets", found.errorCode(partition.topic(), 0));
        return found.offsets(partition.topic(), 0)[0];
    }

    private void commit(SimpleConsumer coordinator, long offset) throws InterruptedException {
        while (true) {
            OffsetAndMetadata next = new OffsetAndMetadata(offset, OffsetAndMetadata.NoMetadata(), -1);
            short error = coordinator.commitOffsets(new OffsetCommitRequest(
                group, Collections.singletonMap(partition, next), 1, NAME, IN_KAFKA)).errorCode(partition);
            if (!passes(error)) {
                check("OffsetCommit", error);
                return;
            }
            Thread.sleep(PAUSE_MS);
        }
    }

    /** The coordinator loads its offsets, is not there yet, or has just become another. */
    private static boolean passes(short error) {
        return error >= 14 && error <= 16;
    }

    private static void check(String what, short error) {
        if (error != 0)
            throw new IllegalStateException(what + ": error " + error);
    }

    private static SimpleConsumer consumer(String host, int port) {
        return new SimpleConsumer(host, port, TIMEOUT_MS, BUFFER, NAME);
    }

    private static String text(ByteBuffer buffer) {
        return buffer == null ? null : StandardCharsets.UTF_8.decode(buffer).toString();
    }
}
