import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

/**
 * Runs kafka-consumer-groups once for every line of standard input, which holds its arguments, separated by tabs. Prints
 * for each a line: the exit status, and in base64 all that it printed.
 */
public class ConsumerGroupCommands {
    private static class Exited extends Error {
        final int status;

        Exited(int status) {
            super(null, null, false, false);
            this.status = status;
        }
    }

    public static void main(String[] none) throws Exception {
        Exit.setExitProcedure((status, message) -> {
            throw new Exited(status);
        });
        PrintStream answers = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream stream = new PrintStream(printed, true, StandardCharsets.UTF_8);
            PrintStream log = System.err;
            int status = 0;
            System.setOut(stream);
            System.setErr(stream);
            try {
                ConsumerGroupCommand.main(line.split("\t"));
            } catch (Exited exited) {
                status = exited.status;
            } finally {
                System.setOut(answers);
                System.setErr(log);
            }
            answers.println(status + " " + Base64.getEncoder().encodeToString(printed.toByteArray()));
            answers.flush();
        }
    }
}
