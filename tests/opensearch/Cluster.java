import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;

/** One OpenSearch node, from the class path alone. Arguments are settings, key=value; `path.home` and `node.name` are needed. */
public final class Cluster extends Node {
    private Cluster(Settings settings) {
        super(
            InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> settings.get("node.name")),
            List.of(
                org.opensearch.transport.Netty4Plugin.class,
                org.opensearch.analysis.common.CommonAnalysisPlugin.class
            ),
            false
        );
    }

    public static void main(String[] arguments) throws Exception {
        Settings.Builder builder = Settings.builder();
        for (String argument : arguments) {
            int equals = argument.indexOf('=');
            builder.put(argument.substring(0, equals), argument.substring(equals + 1));
        }
        Settings settings = builder.build();
        for (String folder : List.of("config", "modules", "plugins", "logs")) {
            Files.createDirectories(Path.of(settings.get("path.home")).resolve(folder));
        }
        Node node = new Cluster(settings);
        CountDownLatch stopped = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.close();
            } catch (Exception e) {
                e.printStackTrace();
            }
            stopped.countDown();
        }));
        node.start();
        // Whoever started it holds the other end; it must not outlive them.
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {}
            } catch (Exception e) {
                // The same as the end.
            }
            Runtime.getRuntime().halt(0);
        });
        watch.setDaemon(true);
        watch.start();
        stopped.await();
    }
}
