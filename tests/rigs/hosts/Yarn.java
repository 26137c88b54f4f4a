// A ResourceManager and a NodeManager in one JVM: java -cp 'JARS/*' Yarn.java FOLDER
// FOLDER/conf is what HADOOP_CONF_DIR names for spark-submit --master yarn; it is there once all run.
import java.io.File;
import java.io.FileOutputStream;
import java.net.InetAddress;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

public class Yarn {
  public static void main(String[] args) throws Exception {
    YarnConfiguration conf = new YarnConfiguration();
    conf.set("fs.defaultFS", "file:///");
    // Else all listen on localhost.
    conf.setBoolean("yarn.minicluster.fixed.ports", true);
    conf.set("yarn.resourcemanager.hostname", InetAddress.getLocalHost().getHostName());
    conf.set("yarn.nodemanager.hostname", InetAddress.getLocalHost().getHostName());
    conf.set("yarn.resourcemanager.scheduler.class", "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler");
    conf.setInt("yarn.scheduler.minimum-allocation-mb", 128);
    conf.setInt("yarn.nodemanager.resource.memory-mb", 4000);
    conf.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
    conf.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
    conf.setBoolean("yarn.nodemanager.disk-health-checker.enable", false);
    MiniYARNCluster cluster = new MiniYARNCluster("hosts", 1, 1, 1);
    cluster.init(conf);
    cluster.start();
    Configuration found = new Configuration(cluster.getConfig());
    found.set("yarn.application.classpath", "");
    File folder = new File(args[0], "conf.new");
    folder.mkdirs();
    // Spark reads fs.defaultFS from the one, YARN's addresses from the other.
    for (String name : new String[] {"core-site.xml", "yarn-site.xml"}) {
      try (FileOutputStream out = new FileOutputStream(new File(folder, name))) { found.writeXml(out); }
    }
    folder.renameTo(new File(args[0], "conf"));
    Thread.sleep(Long.MAX_VALUE);
  }
}
