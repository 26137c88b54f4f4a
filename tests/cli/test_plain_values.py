"""Values that are taken without typer's validation are those that typer makes of them."""

from typing import Annotated

import pytest
import typer
from typer.main import get_command

from kafka_on_spark.cli.call.output import Output
from kafka_on_spark.cli.call.plain_values import with_plain_values


def made():
    """Return the parameters of a verb by name, made anew."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def verb(
        files: Annotated[list[str] | None, typer.Argument()] = None,
        text: Annotated[str | None, typer.Option("--text")] = None,
        texts: Annotated[list[str] | None, typer.Option("--texts")] = None,
        number: Annotated[int | None, typer.Option("--number", min=-1, max=9)] = None,
        share: Annotated[float | None, typer.Option("--share", min=0)] = None,
        output: Annotated[Output, typer.Option("--output")] = Output.TABLE,
        even: Annotated[
            int | None, typer.Option("--even", parser=lambda text: 2 * int(text))
        ] = None,
        most: Annotated[int | None, typer.Option("--most", max=3, clamp=True)] = None,
    ):
        pass

    return {each.name: each for each in get_command(app).params}


def answer(parameter, value):
    """Return the value that a verb gets, or why it is refused."""
    ctx = typer.Context(typer.core.TyperCommand("verb"))
    try:
        found = parameter.get_runtime_param().coerce(value, param=parameter, ctx=ctx)
    except typer.BadParameter as error:
        return error.format_message()
    return found, type(found)


@pytest.mark.parametrize(
    "name,value",
    [
        *[("files", each) for each in (None, (), ("a", "b"), ["a"], (b"a",), "a")],
        *[("text", each) for each in (None, "", "a", b"a", 3)],
        *[("texts", each) for each in (None, (), ("a", ""), ("a", 3), "a")],
        *[("number", each) for each in (None, "0", "+7", "-1", 5, "-2", "10", "x", "", "1.0", 99)],
        *[("share", each) for each in (None, "0.5", "-1", 2.0)],
        *[("output", each) for each in (None, "json", Output.JSON, "JSON", "xml", "TABLE")],
        *[("even", each) for each in (None, "4", "x")],
        *[("most", each) for each in (None, "2", "8")],
    ],
)
def test_value_is_what_typer_makes_of_it(name, value):
    ours, theirs = made()[name], made()[name]

    with_plain_values([ours])

    assert answer(ours, value) == answer(theirs, value)
