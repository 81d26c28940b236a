import java.util.ArrayList;
import java.util.List;

/** What the programs have in common (tests/old_clients/client.py): arguments, time limit, exit status, and output. */
final class Contract {
    private static final long LIMIT_MS = 50_000;

    interface Producing {
        /** Writes keys and values, and gives back the offsets that the client was told, null where it was told none. */
        List<Long> produce(String bootstrap, String topic, String codec, List<String[]> records) throws Exception;
    }

    interface Consuming {
        void consume(String bootstrap, String topic, String group, int count, String zookeeper) throws Exception;
    }

    static void run(String[] args, Producing producing, Consuming consuming) {
        endInTime(Thread.currentThread());
        try {
            if (args[0].equals("produce") && producing != null) {
                List<String[]> records = records(args[4], Integer.parseInt(args[5]));
                List<Long> offsets = producing.produce(args[1], args[2], args[3], records);
                System.out.println("{\"offsets\": " + offsets + "}");
            } else if (args[0].equals("consume") && consuming != null) {
                consuming.consume(args[1], args[2], args[3], Integer.parseInt(args[4]), args[5]);
            } else {
                throw new IllegalArgumentException("this client does not " + args[0]);
            }
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0); // some of these clients leave threads behind
    }

    /** timestamp: null where the client has none, negative where the record has none. */
    static void print(long offset, String key, String value, Long timestamp) {
        System.out.println("{\"offset\": " + offset + ", \"key\": " + json(key) + ", \"value\": " + json(value)
            + ", \"timestamp\": " + (timestamp == null || timestamp < 0 ? null : timestamp) + "}");
    }

    private static List<String[]> records(String prefix, int count) {
        List<String[]> records = new ArrayList<>();
        for (int i = 0; i < count; i++)
            records.add(new String[] {prefix + "-key-" + i, prefix + "-value-" + i + "-" + "x".repeat(200)});
        return records;
    }

    private static String json(String text) {
        if (text == null)
            return "null";
        StringBuilder quoted = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            if (each < ' ' || each > '~' || each == '"' || each == '\\')
                quoted.append(String.format("\\u%04x", (int) each));
            else
                quoted.append(each);
        }
        return quoted.append('"').toString();
    }

    /** Old clients wait for ever in many places: say where, and end. */
    private static void endInTime(Thread main) {
        Thread watch = new Thread(() -> {
            try {
                Thread.sleep(LIMIT_MS);
            } catch (InterruptedException error) {
                return;
            }
            System.err.println("not done within " + LIMIT_MS + " ms; it is here:");
            for (StackTraceElement each : main.getStackTrace())
                System.err.println("  " + each);
            Runtime.getRuntime().halt(2);
        });
        watch.setDaemon(true);
        watch.start();
    }

    private Contract() {}
}
