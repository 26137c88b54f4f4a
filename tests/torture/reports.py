"""Reports of torture runs in which nothing was done, but what a test says."""

from tests.rigs.torturing.report import Report


def report_of(*anomalies, first_decisions=()):
    return Report(
        seed=1,
        minutes=0.5,
        began_at="",
        machine={},
        disks="folders",
        operations={},
        errors={},
        faults={},
        faults_left_out={},
        restarts=0,
        records_acked=0,
        records_read_back=0,
        appends_by_client={},
        unknown_appends={"appends": 0, "committed": 0},
        stray_commits=0,
        answered_without_controller_s=[],
        events={},
        longest_silence_s=0,
        longest_silence_s_by_partition={},
        fsck={"versions": 0},
        anomalies=anomalies,
        first_decisions=dict(first_decisions),
    )
