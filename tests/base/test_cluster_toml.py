"""`conf/cluster.toml` is where people look settings up, so it has to be true."""

import tomllib
from pathlib import Path

from kafka_on_spark.base import config
from kafka_on_spark.base.config import SETTINGS, check_settings, cluster_settings

FILE = Path(__file__).parents[2] / "conf" / "cluster.toml"


def test_as_it_comes_it_changes_nothing():
    assert tomllib.loads(FILE.read_text()) == {"cluster": {}}


def test_its_commented_lines_are_all_settings_with_their_defaults():
    lines = FILE.read_text().splitlines()
    uncommented = [line.removeprefix("# ") if line.startswith('# "') else line for line in lines]

    shown = tomllib.loads("\n".join(uncommented))["cluster"]

    defaults = {name: setting.default for name, setting in SETTINGS.items()}
    assert check_settings(shown, topic_only=False) == defaults


def test_its_settings_are_a_new_clusters_in_a_checkout_and_as_installed(tmp_path, monkeypatch):
    for place in ("conf", "kafka_on_spark/conf"):
        root = tmp_path / place.replace("/", "-")
        (root / place).mkdir(parents=True)
        (root / place / "cluster.toml").write_text('[cluster]\n"retention.ms" = 5\n')
        monkeypatch.setattr(config, "__file__", str(root / "kafka_on_spark" / "base" / "config.py"))

        assert cluster_settings({"retention.bytes": "7"}) == {
            "retention.ms": "5",
            "retention.bytes": "7",
        }
