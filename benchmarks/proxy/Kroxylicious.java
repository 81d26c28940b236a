import io.kroxylicious.proxy.KafkaProxy;
import io.kroxylicious.proxy.config.ConfigParser;
import io.kroxylicious.proxy.internal.config.Features;
import java.nio.file.Files;
import java.nio.file.Path;

/** Runs the proxy with the configuration in the file that is named, until the process is ended. */
public class Kroxylicious {
    public static void main(String[] arguments) throws Exception {
        ConfigParser parser = new ConfigParser();
        var configuration = parser.parseConfiguration(Files.readString(Path.of(arguments[0])));
        try (KafkaProxy proxy = new KafkaProxy(parser, configuration, Features.defaultFeatures())) {
            proxy.startup();
            System.out.println("Kroxylicious started");
            proxy.block();
        }
    }
}
