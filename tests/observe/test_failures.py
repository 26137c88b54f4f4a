"""The script that makes a cluster with a history of failures. The notebook's test runs its steps."""

from tests.cluster.disks import records
from tests.rigs.failures import draw, main


def test_a_folder_with_something_in_it_is_refused_and_left_as_it_is(tmp_path, capsys):
    (tmp_path / "mine").write_text("mine")

    assert main([str(tmp_path)]) == 1

    assert capsys.readouterr().err.endswith("is not empty: name another folder\n")
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_the_pictures_of_a_cluster_are_written(disks, tmp_path):
    disks.cluster.create_topic("orders", replica_assignment={0: [1, 2]})
    disks.cluster.append("orders", records(b"a"))

    draw(disks.cluster, tmp_path / "pictures")

    written = {each.name: each.read_bytes() for each in (tmp_path / "pictures").iterdir()}
    assert written.keys() == {"timeline.png", "grid.png"}
    assert written["timeline.png"].startswith(b"\x89PNG")
    assert written["grid.png"].startswith(b"\x89PNG")
