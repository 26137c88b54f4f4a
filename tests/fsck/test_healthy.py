def test_a_cluster_that_lived_through_everything_is_clean(life):
    report = life.fsck()

    assert report.findings == ()
