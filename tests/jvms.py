"""How JVMs that tests start are to run: each lives for seconds, and half of its processor time went
into compiling its code a second time, for a speed that it never reached. An eighth went into verifying
the classes of Spark's jars, whose checksums the set-up has compared."""

from typing import Final

COMPILED_ONCE: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
UNVERIFIED: Final = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
QUICK: Final = f"-XX:+IgnoreUnrecognizedVMOptions {COMPILED_ONCE} {UNVERIFIED}"
