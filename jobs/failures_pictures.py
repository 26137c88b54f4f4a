"""The pictures of `jobs/failures.py`: the life over time, the grid as it is now, and the page."""

from pathlib import Path

from kafka_on_spark import Cluster
from kafka_on_spark.inspect.grid_plot import grid_picture
from kafka_on_spark.inspect.page import cluster_page
from kafka_on_spark.inspect.plots import timeline_picture


def draw(cluster: Cluster, folder: Path) -> None:
    """Write timeline.png, grid.png and cluster.html to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    entries, events = cluster.history(), cluster.broker_history()
    timeline_picture(entries, events=events).save(folder / "timeline.png")
    grid_picture(cluster.image).save(folder / "grid.png")
    cluster_page(cluster.image, entries).save(folder / "cluster.html")
