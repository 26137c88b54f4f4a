from kafka_on_spark.service.absences import Absences
from tests.builders import image_of, partition
from tests.fakes import FakeClock


def test_time_away_is_counted_from_when_it_is_first_seen_and_anew_after_a_return():
    clock = FakeClock()
    absences = Absences(clock)
    there, away = (image_of(partition("1 2"), ids="1 2", fenced=fenced) for fenced in ("", "2"))

    assert absences.away_ms(there) == {}
    assert absences.away_ms(away) == {2: 0}
    clock.advance(700)
    assert absences.away_ms(away) == {2: 700}
    assert absences.away_ms(there) == {}
    clock.advance(700)
    assert absences.away_ms(away) == {2: 0}
