import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ClassicGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * BOOTSTRAP GROUP TOPIC: all that Kafka's admin client can do with a group, a line each of what came of it.
 *
 * The group is first nobody's, then it has a static and a dynamic member in this process, then these are removed.
 */
public class AdminOfGroups {
    static Admin admin;
    static String group;
    static String unknown;
    static TopicPartition first;
    static TopicPartition second;

    public static void main(String[] args) throws Exception {
        group = args[1];
        unknown = group + "-unknown";
        first = new TopicPartition(args[2], 0);
        second = new TopicPartition(args[2], 1);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        admin = Admin.create(settings);

        say("the topic's offsets", () -> partitionOffsets());
        say("delete unknown", () -> admin.deleteConsumerGroups(List.of(group)).all().get());
        say("describe unknown", () -> described());
        say("describe unknown as classic", () -> asClassic());
        say("offsets of unknown", () -> offsets());
        say("alter", () -> alter(3));
        say("offsets", () -> offsets());
        say("offsets of two groups", () -> offsetsOfTwo());
        say("listed", () -> listed());
        say("described", () -> described());
        say("described as classic", () -> asClassic());
        say("delete an offset", () -> admin.deleteConsumerGroupOffsets(group, Set.of(second)).all().get());
        say("offsets", () -> offsets());

        try (KafkaConsumer<byte[], byte[]> fixed = member(settings, "the-one");
                KafkaConsumer<byte[], byte[]> changing = member(settings, null)) {
            while (fixed.assignment().size() != 1 || changing.assignment().size() != 1) {
                fixed.poll(Duration.ofMillis(50));
                changing.poll(Duration.ofMillis(50));
            }
            fixed.commitSync(Map.of(at(fixed), new OffsetAndMetadata(5, Optional.of(0), "by a member")));
            say("beside members: offsets", () -> sum());
            say("beside members: listed", () -> listed());
            say("beside members: described", () -> described());
            say("beside members: described as classic", () -> asClassic());
            say("beside members: alter", () -> alter(4));
            say("beside members: delete offsets",
                    () -> admin.deleteConsumerGroupOffsets(group, Set.of(first)).all().get());
            say("beside members: delete", () -> admin.deleteConsumerGroups(List.of(group)).all().get());
            say("remove a member that there is not", () -> remove(List.of(new MemberToRemove("another"))));
            say("remove all members", () -> admin.removeMembersFromConsumerGroup(
                    group, new RemoveMembersFromConsumerGroupOptions()).all().get());
            say("members removed: described", () -> described());
            say("members removed: offsets", () -> sum());
        }
        say("alter", () -> alter(7));
        say("offsets", () -> offsets());
        say("listed", () -> listed());
        say("delete, and one that there is not", () -> delete(group, unknown));
        say("offsets", () -> offsets());
        say("listed", () -> listed());
        System.exit(0);
    }

    static void say(String what, Callable<Object> asked) {
        String came;
        try {
            came = String.valueOf(asked.call());
        } catch (ExecutionException error) {
            came = error.getCause().getClass().getSimpleName();
        } catch (Exception error) {
            came = error.getClass().getSimpleName();
        }
        System.out.println(what + ": " + came);
        System.out.flush();
    }

    static KafkaConsumer<byte[], byte[]> member(Properties settings, String instance) {
        Properties own = new Properties();
        own.putAll(settings);
        own.put("group.id", group);
        own.put("client.id", instance == null ? "dynamic" : "static");
        if (instance != null) own.put("group.instance.id", instance);
        own.put("enable.auto.commit", "false");
        own.put("heartbeat.interval.ms", "300");
        KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(own, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(first.topic()));
        return consumer;
    }

    static TopicPartition at(KafkaConsumer<byte[], byte[]> member) {
        return member.assignment().iterator().next();
    }

    static Object partitionOffsets() throws Exception {
        List<Object> found = new ArrayList<>();
        for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.forTimestamp(0))) {
            found.add(admin.listOffsets(Map.of(first, spec)).partitionResult(first).get().offset());
        }
        return found;
    }

    static Object alter(long offset) throws Exception {
        return admin.alterConsumerGroupOffsets(group, Map.of(
                first, new OffsetAndMetadata(offset, Optional.of(0), "why"),
                second, new OffsetAndMetadata(offset + 1))).all().get();
    }

    static Object offsets() throws Exception {
        Map<TopicPartition, OffsetAndMetadata> found = admin.listConsumerGroupOffsets(group)
                .partitionsToOffsetAndMetadata().get();
        return found.entrySet().stream()
                .map(entry -> entry.getKey().partition() + "=" + entry.getValue().offset()
                        + "/" + entry.getValue().leaderEpoch() + "/" + entry.getValue().metadata())
                .sorted().toList();
    }

    /** Which of the two partitions a member has is not the same every time. */
    static Object sum() throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().values().stream()
                .map(OffsetAndMetadata::offset).filter(offset -> offset == 5).count();
    }

    static Object offsetsOfTwo() throws Exception {
        ListConsumerGroupOffsetsSpec both = new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(first, second));
        Map<String, Map<TopicPartition, OffsetAndMetadata>> found = admin.listConsumerGroupOffsets(
                Map.of(group, both, unknown, both), new ListConsumerGroupOffsetsOptions().requireStable(true)).all().get();
        return List.of(found.get(group).get(second).offset(), String.valueOf(found.get(unknown).get(second)));
    }

    /** In how many of the lists with these filters the group is, and as what. */
    static Object listed() throws Exception {
        Map<String, ListGroupsOptions> filters = new HashMap<>();
        filters.put("all", new ListGroupsOptions());
        filters.put("classic", new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC)));
        filters.put("new", new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER)));
        filters.put("stable", new ListGroupsOptions().inGroupStates(Set.of(GroupState.STABLE)));
        filters.put("empty", new ListGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY)));
        filters.put("consumers", new ListGroupsOptions().withProtocolTypes(Set.of("consumer")));
        filters.put("simple", new ListGroupsOptions().withProtocolTypes(Set.of("")));
        filters.put("workers", new ListGroupsOptions().withProtocolTypes(Set.of("connect")));
        Collection<String> found = new TreeSet<>();
        for (Map.Entry<String, ListGroupsOptions> filter : filters.entrySet()) {
            admin.listGroups(filter.getValue()).all().get().stream()
                    .filter(listing -> listing.groupId().equals(group))
                    .forEach(listing -> found.add(filter.getKey() + " " + listing.protocol() + " " + listing.type()
                            + " " + listing.groupState() + " " + listing.isSimpleConsumerGroup()));
        }
        return found;
    }

    static Object described() throws Exception {
        ConsumerGroupDescription found = admin.describeConsumerGroups(
                        List.of(group), new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true))
                .all().get().get(group);
        return List.of(found.groupState(), found.type(), found.isSimpleConsumerGroup(), found.partitionAssignor(),
                found.coordinator().id(), new TreeSet<>(found.authorizedOperations()),
                found.members().stream()
                        .map(member -> member.clientId() + " " + member.host() + " " + member.groupInstanceId()
                                + " " + member.assignment().topicPartitions().size())
                        .sorted().toList());
    }

    static Object asClassic() throws Exception {
        ClassicGroupDescription found =
                admin.describeClassicGroups(List.of(group)).all().get().get(group);
        return List.of(found.state(), found.protocol(), found.protocolData(), found.isSimpleConsumerGroup(),
                found.members().size());
    }

    static Object remove(List<MemberToRemove> members) throws Exception {
        return admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(members))
                .memberResult(members.get(0)).get();
    }

    static Object delete(String... groups) throws Exception {
        return admin.deleteConsumerGroups(List.of(groups)).deletedGroups().entrySet().stream()
                .map(deleted -> (deleted.getKey().equals(group) ? "it " : "the other ") + outcome(deleted.getValue()))
                .sorted().collect(Collectors.toList());
    }

    static String outcome(org.apache.kafka.common.KafkaFuture<Void> asked) {
        try {
            return String.valueOf(asked.get());
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
