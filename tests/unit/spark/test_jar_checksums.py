"""Which of the jars that Spark fetched are the ones that were tried; no Spark is started."""

import hashlib

import pytest

from kafka_on_spark.errors import WrongJarError
from kafka_on_spark.spark.delta_jars import check_jars


@pytest.fixture
def jars(tmp_path):
    """A folder with a jar that is listed and one that is not."""
    digest = hashlib.sha256(b"tried").hexdigest()
    (tmp_path / "delta-jars.sha256").write_text(f"{digest}  delta.jar\n")
    (tmp_path / "delta.jar").write_bytes(b"tried")
    (tmp_path / "theirs.jar").write_bytes(b"whatever")
    return tmp_path


def test_a_jar_as_it_was_tried_is_taken(jars):
    check_jars([jars / "delta.jar"], jars, is_complete=True)


def test_a_jar_with_another_content_is_refused_also_next_to_other_packages(jars):
    (jars / "delta.jar").write_bytes(b"tries")

    for is_complete in (True, False):
        with pytest.raises(WrongJarError, match=r"fetched .*/delta.jar with the SHA-256 .* start"):
            check_jars([jars / "delta.jar"], jars, is_complete=is_complete)


def test_a_jar_that_is_not_listed_is_refused_unless_packages_were_asked_for(jars):
    check_jars([jars / "theirs.jar"], jars, is_complete=False)

    with pytest.raises(WrongJarError, match=r"where no such jar is allowed"):
        check_jars([jars / "theirs.jar"], jars, is_complete=True)
