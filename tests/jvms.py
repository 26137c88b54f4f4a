"""How JVMs that tests start are to run: each lives for seconds, and half of its processor time went
into compiling its code a second time, for a speed that it never reached. An eighth went into verifying
the classes of Spark's jars, whose checksums the set-up has compared. A quarter of what was left went
into Java code that Spark writes for each query and compiles: a query of a few rows is run sooner by
Spark's interpreter. The quickstart and the soak, by hand and in .ci/run, run what is compiled."""

from typing import Final

COMPILED_ONCE: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
UNVERIFIED: Final = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
QUICK: Final = f"-XX:+IgnoreUnrecognizedVMOptions {COMPILED_ONCE} {UNVERIFIED}"
INTERPRETED: Final = (
    "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
)
DRIVER: Final = f"{QUICK} {INTERPRETED}"
"""Spark takes no settings of its own in the options of executors; they have the driver's."""
