"""How JVMs that tests start are to run: each lives for seconds, and half of its processor time went
into compiling its code a second time, for a speed that it never reached."""

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
