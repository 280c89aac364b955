"""provenance: what is said of features can be shown on a line, and says the league."""

import pytest

from labeldp.trainers.encoders.provenance import NO_OUTSIDE_DATA, FeatureProvenance, League

MADE = FeatureProvenance(
    league=League.PUBLIC_ENCODER,
    encoder="timm:net",
    weights="ab" * 32,
    preparation="middle 224",
    trained_on="ImageNet-1k",
    trained_by="timm",
)


def test_it_is_written_down_and_read_again() -> None:
    assert FeatureProvenance.restored(MADE.described()) == MADE
    assert NO_OUTSIDE_DATA.described() == {"league": "none"}
    assert FeatureProvenance.restored({}) == NO_OUTSIDE_DATA


def test_another_encoder_is_told_from_the_same() -> None:
    said = MADE.described()
    assert MADE.same_encoder(FeatureProvenance.restored({**said, "trained_on": "else"}))
    for key in ("encoder", "weights", "preparation"):
        assert not MADE.same_encoder(FeatureProvenance.restored({**said, key: "else"}))


@pytest.mark.parametrize("text", ["two\nlines", "x" * 201, "\x1b[31m"])
def test_what_no_line_can_show_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"trained_on is .* must be one line"):
        FeatureProvenance(trained_on=text)


def test_a_league_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="premier"):
        FeatureProvenance.restored({"league": "premier"})
