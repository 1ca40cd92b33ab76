import sys
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.data.splitting import (
    Splitter,
    find_final_stops,
    make_splitter,
    one_sentence,
    split_lines,
    split_sentences,
    split_whitespace,
    split_words,
)
from relatum.errors import ConfigError
from relatum.types import Span

# The characters the rules care about come often, all others sometimes.
TEXTS = st.one_of(
    st.text(max_size=80),
    st.text(
        st.sampled_from(
            "aAbIUS.S é́9051,,;:-–—_/'’\"`“”()[]!?…。！」 \n\r\t\x0b\x85\u2028\u200b\u200d\ufeff\x00👍🏽🇺中@&%$"
        ),
        max_size=80,
    ),
    st.lists(
        st.sampled_from(
            "Dr. U.S. No. 5 The the Navy e.g. i.v. mg/kg J. -0.37 p53 don't ... -- ``x'' .) \n \n\n \r\n - 1. a) Va. , "
            ". hepatitis C. 好。 www.a.org me@x.org 5mg )' etc. [12] .[12]".split(" ")
        ),
        max_size=30,
    ).map(" ".join),
)


def parts(text: str, split: Callable[[str], list[Span]]) -> list[str]:
    return [span.of(text) for span in split(text)]


def covered(spans: list[Span] | tuple[Span, ...]) -> list[int]:
    return [i for span in spans for i in range(span.start, span.end)]


def not_blank(text: str) -> list[int]:
    return [i for i, character in enumerate(text) if not character.isspace()]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # news
        ("The U.S. Navy's plan.", "The|U.S.|Navy|'s|plan|."),
        (
            "Jacobs' lawyers met Sen. John F. Kennedy Jr. there.",
            "Jacobs|'|lawyers|met|Sen.|John|F.|Kennedy|Jr.|there|.",
        ),
        ("Batavia, N.Y., and Omaha, Neb.", "Batavia|,|N.Y.|,|and|Omaha|,|Neb|."),
        ("WASHINGTON (AP) _ The president", "WASHINGTON|(|AP|)|_|The|president"),
        ('"Don\'t," she said; "they\'ll go."', '"|Don|\'t|,|"|she|said|;|"|they|\'ll|go|.|"'),
        ("‘I’ve seen “it”,’ he said…", "‘|I|’ve|seen|“|it|”|,|’|he|said|…"),
        ("``On the Brink''", "``|On|the|Brink|''"),
        ("O'Brien at 10 o'clock", "O'Brien|at|10|o'clock"),
        ("(AP)'s and U.S.'s", "(|AP|)|'s|and|U.S.|'s"),
        ("$1,000.50, €5 and 70%", "$|1,000.50|,|€|5|and|70|%"),
        ("the .38-caliber 737-400 and 24-31", "the|.38-caliber|737-400|and|24-31"),
        ("left--he--left—and – wait...", "left|--|he|--|left|—|and|–|wait|..."),
        ("At 10:30 a.m. on Jan. 4, 12/25/1999", "At|10:30|a.m.|on|Jan.|4|,|12/25/1999"),
        ("AT&T, R&D and Smith & Co. of", "AT&T|,|R&D|and|Smith|&|Co.|of"),
        ("No. 5 said no. No.", "No.|5|said|no|.|No|."),
        ("a U.S.-based Ph.D. student", "a|U.S.|-|based|Ph.D.|student"),
        ("J.Smith ended.The next", "J.|Smith|ended|.|The|next"),
        ("What?! No!!! ===", "What|?|!|No|!!!|==="),
        # biomedical
        ("high-dose drug-induced re-", "high|-|dose|drug|-|induced|re|-"),
        ("a 43-year-old on 5-FU, IL-2 and beta-1a", "a|43-year|-|old|on|5-FU|,|IL-2|and|beta-1a"),
        ("4-chloro-7-nitrobenzofurazan", "4-chloro-7-nitrobenzofurazan"),
        ("5mg/kg i.v. at 2.5 mg/m2 (10:30am)", "5|mg|/|kg|i.v.|at|2.5|mg|/|m2|(|10:30|am|)"),
        ("p<0.05, r = -0.37 (n=38)", "p|<|0.05|,|r|=|-0.37|(|n|=|38|)"),
        ("(e.g. aspirin, ca. 5 h, 1:1000, 120/67)", "(|e.g.|aspirin|,|ca.|5|h|,|1:1000|,|120/67|)"),
        ("C. difficile, hepatitis C. The", "C.|difficile|,|hepatitis|C|.|The"),
        ("TNF-α, α-synuclein, 20 µg, 37°C", "TNF|-|α|,|α|-|synuclein|,|20|µg|,|37|°|C"),
        ("1,25(OH)2D3 (sub)fulminant CD4+", "1,25|(|OH|)|2D3|(|sub|)|fulminant|CD4|+"),
        ("Parkinson's imipenem/cilastatin F1 3D B12", "Parkinson|'s|imipenem|/|cilastatin|F1|3D|B12"),
        ("et al., vs. Fig. 2, etc.", "et|al.|,|vs.|Fig.|2|,|etc|."),
        # addresses
        ("See http://a.org/x?y=1,2. Or www.b.com!", "See|http://a.org/x?y=1,2|.|Or|www.b.com|!"),
        ("(me.too@x-y.co.uk)", "(|me.too@x-y.co.uk|)"),
        ("foo_bar __init__ Node.js", "foo_bar|__|init|__|Node.js"),
        # other scripts and odd characters
        ("中文字。hello世界", "中|文|字|。|hello|世|界"),
        ("안녕하세요 हिन्दी। العربية؟", "안녕하세요|हिन्दी|।|العربية|؟"),
        ("cafe\u0301 naïve Ångström", "cafe\u0301|naïve|Ångström"),
        ("👍🏽👨\u200d👩\u200d👧 🇺🇸🇬🇧 ❤\ufe0f1\ufe0f\u20e3", "👍🏽|👨\u200d👩\u200d👧|🇺🇸|🇬🇧|❤\ufe0f|1\ufe0f\u20e3"),
        ("\ufeffa\u200bb so\xadft", "\ufeff|a|\u200b|b|so\xadft"),
        ("a\xa0b\u2003c\u3000d\x1fe", "a|b|c|d|e"),
        ("a\x00b", "a|\x00|b"),
        ("", ""),
        (" \n\t ", ""),
    ],
)
def test_split_words_examples(text: str, words: str) -> None:
    assert parts(text, split_words) == ([] if not words else words.split("|"))


@pytest.mark.parametrize(
    "text",
    [
        # abbreviations, titles, initials
        "Dr. Smith came.| He left.",
        "Mrs. J. K. Rowling met Gov. Jim Martin.| Then she left.",
        "He moved to the U.S. with Acme Inc. of Ohio.",
        "He moved to the U.S.| The book sold.",
        "The U.S. Navy fired.| It left.",
        "Acme Inc. Chairman John F. Kennedy Jr. spoke.| He left Acme Inc.| The firm grew.",
        "He was born in Staunton, Va.| Cetin added that.",
        "SOLEDAD, Calif. _ A state board met.| It ruled.",
        "WASHINGTON (AP) _ The president spoke.| He left.",
        "It closed on Jan. 4 at 5 p.m. Tuesday.| It reopened at 6 p.m.| He left.",
        "He lives on Main St.| The house is in St. Louis.",
        "See Fig. 2.| The No. 5 car.| He said no.| Then he left.",
        "Smith et al. (1998) and Jones et al., 2008, agree.| We do not.",
        "(e.g. Aspirin, i.e. ASA, vs. The Rest)",
        "Lists, tables etc. are here.| Lists, tables etc.| Patients were seen.",
        'He said: "It is in the U.S." Bush agreed.',
        # biomedical
        "We gave 5 mg/kg.| The rest got 1,200 g.| Serotonin fell.",
        "It differed (p < 0.05).| In all, p = 0.05.| No more.",
        "She took 5-FU.| Patients improved.",
        "C. difficile and E. coli grew.| Patients with hepatitis C.| Purple glove syndrome.",
        "It was in cells.| mRNA was found.| p53 too.",
        "It rose 3.5 percent.| 10 patients died.",
        "This was seen.[12]| The next was not.[3,4–6]",
        # stops, quotes, brackets
        '"Why?" he asked.| "Go!"| She left.',
        "``It works.''| He left (see below.)| Then he came.",
        "Wait... what?| Well...| Yes!!| ‘Good.’| Fine.",
        "He came... and went. . .| Then, no.",
        "He paused . . . and left.",
        # lines
        "A line\nthat goes on. then ends",
        "A line ends.|\nlower case follows",
        "Headline without a stop|\n\nText that follows|\n \t\nMore|\r\n\r\nAnd more",
        # blank lines inside a sentence
        "Helen Okafor is chief economist\n\nof Lakeshore National Bank.|\n\nShe lives there.",
        "Erik Dahl was born in\r\n \r\nHammerfest, Norway.| He works for the\n\n\n\nLakeshore Bank.",
        "Erik Dahl was born in Hammerfest,\n\nNorway.",
        "The study was stopped within\n\f\n12 weeks (see page 2\n\nfor details).",
        "It was found in the cells\n\nof all of them",
        # headings, greetings and lists end at a blank line
        "Ingredients|\n\nflour|\n\nsugar",
        "fresh sweet apples|\n\npears|\n\nplums",
        "Dear Mr. Okafor,|\n\nErik Dahl was born there.",
        "You will find the answers here:|\n\nflour and sugar",
        "He came to the house in town|\n\n- one|\n\n(a) two",
        "It was found in the cells|\n\np53 was not",
        "She wrote to all of them,|\n\nThe answer came.",
        # headlines in capitals
        "LAKESHORE BANK HIRES\nAN ECONOMIST|\nHelen Okafor, an economist, was hired.| She left.",
        "He left.|\nFIRE IN OLDHAVEN'S PORT|\n“Nobody was hurt,” she said.",
        "THE UN AND NATO\nmet in Oslo.",
        "ALL OF THIS IS\nIN CAPITALS.",
        "U.S. NAVY\nShips left.",
        "1. Introduction|\n2. Methods and\nmore",
        "Items:|\n- one|\n• two|\n(a) three|\n4) four",
        "Dr.|\n\nSmith",
        # no white space needed
        "好的。|你好！」|他说。|ok",
        "",
        "   ",
    ],
)
def test_split_sentences_examples(text: str) -> None:
    expected = [part.strip() for part in text.split("|")] if text.strip() else []
    assert parts(text.replace("|", ""), split_sentences) == expected


@pytest.mark.parametrize(
    ("sentence", "stops"),
    [
        ("He left .", "."),
        ("Norway .", "."),
        ("` ` He left ! ? ''", "! ? ''"),
        ("( He left . )", ". )"),
        ("Wait ...", "..."),
        ("山 。 」", "。 」"),
        ("in Lansing , Mich .", ""),
        ("of the U.S .", ""),
        ("He left", ""),
        ('He said "', ""),
        (".", "."),
        ("", ""),
    ],
)
def test_final_stops_are_those_that_no_abbreviation_has(sentence: str, stops: str) -> None:
    words = sentence.split()
    found = find_final_stops(words)
    assert " ".join(words[number] for number in found) == stops
    assert not found or found[-1] == len(words) - 1


def test_split_lines_takes_every_line_that_is_not_blank() -> None:
    assert parts(" a b \r\n\r\n\tc\rd\u2028e\n", split_lines) == ["a b", "c", "d", "e"]


def test_one_sentence_is_the_trimmed_text() -> None:
    assert one_sentence("  a. B.\n\nc ") == [Span(2, 10)]
    assert one_sentence(" \n") == []


def test_split_words_covers_every_character_python_does_not_call_white_space() -> None:
    text = "".join(map(chr, range(sys.maxunicode + 1)))
    assert covered(split_words(text)) == not_blank(text)
    assert covered(split_whitespace(text)) == not_blank(text)


@given(TEXTS)
def test_words_cover_exactly_what_is_not_blank(text: str) -> None:
    assert covered(split_words(text)) == not_blank(text)
    assert parts(text, split_whitespace) == text.split()


@given(TEXTS)
def test_sentences_are_trimmed_and_cover_what_is_not_blank(text: str) -> None:
    for split in (split_sentences, split_lines, one_sentence):
        spans = split(text)
        places = covered(spans)
        assert places == sorted(set(places))
        assert set(not_blank(text)) <= set(places)
        assert all(part and part == part.strip() for part in parts(text, split))


@given(TEXTS)
def test_a_sentence_is_one_sentence_by_itself(text: str) -> None:
    for sentence in parts(text, split_sentences):
        assert parts(sentence, split_sentences) == [sentence]


@given(TEXTS)
def test_split_lines_agrees_with_splitlines(text: str) -> None:
    assert parts(text, split_lines) == [line.strip() for line in text.splitlines() if line.strip()]


@given(TEXTS, st.sampled_from(["rules", "whitespace"]), st.sampled_from(["rules", "lines", "none"]))
def test_splitter_puts_every_word_in_one_sentence(text: str, words: str, sentences: str) -> None:
    splitter = make_splitter(words, sentences)
    found, ranges = splitter.split(text)
    assert covered(found) == not_blank(text)
    assert covered(ranges) == list(range(len(found)))
    limits = [(found[span.start].start, found[span.end - 1].end) for span in ranges]
    assert limits == [(span.start, span.end) for span in splitter.sentences(text)]


def test_splitter_counts_sentences_in_words() -> None:
    words, sentences = make_splitter().split("Dr. Who left. \n\n He's in.")
    assert words == (
        Span(0, 3),
        Span(4, 7),
        Span(8, 12),
        Span(12, 13),
        Span(17, 19),
        Span(19, 21),
        Span(22, 24),
        Span(24, 25),
    )
    assert sentences == (Span(0, 4), Span(4, 8))


def test_splitter_cuts_words_that_cross_sentences() -> None:
    words, sentences = make_splitter("whitespace").split("好。你好。 a。")
    assert words == (Span(0, 2), Span(2, 5), Span(6, 8))
    assert sentences == (Span(0, 1), Span(1, 2), Span(2, 3))


def test_splitter_drops_sentences_without_words() -> None:
    splitter = Splitter(lambda _: [Span(4, 5)], lambda _: [Span(0, 1), Span(2, 5), Span(6, 7)])
    assert splitter.split("a b c d") == ((Span(4, 5),), (Span(0, 1),))


SLOW = {
    "dots": "." * 100_000,
    "initials": "a.b." * 100_000,
    "brackets": "(" * 100_000,
    "numbers": "1,2:3/" * 100_000,
    "digits": "1" * 1_000_000,
    "letters": "a" * 1_000_000,
    "hyphens": "a-_" * 30_000,
    "stops": ". " * 50_000,
    "abbreviations": "U.S. Navy " * 10_000,
    "lines": "\r\n" * 100_000,
    "blanks": ("." + " " * 10_000) * 100,
    "quotes": "'s''" * 20_000,
    "addresses": "http://" + "." * 100_000 + " www.<" * 10_000,
    "mails": "a.b-c" * 20_000 + "@",
    "marks": "+" + "\u0301" * 100_000,
    "ideographs": "好。" * 20_000,
    "items": "\n- " * 20_000,
    "closers": "." + ")" * 50_000 + ".[1" * 10_000,
    "blank lines": "The old word of" + "\n" * 100_000 + "word",
    "blank lines that go on": "The old words of, " + "\n\nof" * 50_000,
    "capitals": "ALL OF IT\n" * 50_000 + "Is this.",
}


@pytest.mark.parametrize("name", SLOW)
def test_splitting_takes_linear_time(name: str) -> None:
    start = time.process_time()
    make_splitter().split(SLOW[name])
    assert time.process_time() - start < 1


def by_character(text: str) -> list[Span]:
    return [Span(i, i + 1) for i, character in enumerate(text) if not character.isspace()]


def backwards(text: str) -> list[Span]:
    return by_character(text)[::-1]


def beyond(text: str) -> list[Span]:
    return [Span(0, len(text) + 1)]


def overlapping(text: str) -> list[Span]:
    return [Span(0, 2), Span(1, len(text))]


def whole(text: str) -> list[Span]:
    return [Span(0, len(text))]


def pairs(text: str) -> list[tuple[int, int]]:
    return [(0, len(text))]


def nothing(_: str) -> None:
    return None


def failing(_: str) -> list[Span]:
    raise KeyError("no model")


def first_letter(_: str) -> list[Span]:
    return [Span(0, 1)]


NUMBER = 3


@pytest.fixture(autouse=True)
def this_module_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "own_rules", sys.modules[__name__])


def test_make_splitter_takes_the_users_functions() -> None:
    words, sentences = make_splitter("own_rules:by_character", "relatum.data.splitting:split_lines").split("ab c\nd")
    assert words == (Span(0, 1), Span(1, 2), Span(3, 4), Span(5, 6))
    assert sentences == (Span(0, 3), Span(3, 4))


@pytest.mark.parametrize(
    ("words", "sentences", "message"),
    [
        ("spacy", "rules", "words = 'spacy': unknown; use 'rules', 'whitespace', or 'package.module:function'"),
        ("rules", "line", "sentences = 'line': unknown; use 'rules', 'lines', 'none', or"),
        ("rules", "own_rules:", "sentences = 'own_rules:': unknown"),
        ("no_such_module:split", "rules", "words = 'no_such_module:split': ModuleNotFoundError.*PYTHONPATH"),
        ("..own_rules:split", "rules", "words = '..own_rules:split': TypeError"),
        ("own_rules:no_such", "rules", "words = 'own_rules:no_such': .*no attribute 'no_such'; name a function"),
        ("own_rules:NUMBER", "rules", "words = 'own_rules:NUMBER': found int; name a function"),
    ],
)
def test_make_splitter_refuses_names_it_cannot_use(words: str, sentences: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_splitter(words, sentences)


@pytest.mark.parametrize(
    ("words", "sentences", "message"),
    [
        ("rules", "own_rules:beyond", r"sentences = '.*:beyond' returned .*expected spans within the text's 4 char"),
        ("own_rules:overlapping", "rules", r"words = '.*:overlapping' returned .*in order that do not overlap"),
        ("rules", "own_rules:backwards", r"sentences = .*in order that do not overlap"),
        ("own_rules:pairs", "rules", r"words = '.*:pairs' returned \(0, 4\); expected a list of relatum.types.Span"),
        ("own_rules:nothing", "rules", r"words = '.*:nothing' failed: TypeError"),
        ("rules", "own_rules:failing", r"sentences = '.*:failing' failed: KeyError: 'no model'; expected"),
        (
            "own_rules:whole",
            "rules",
            r"words = '.*:whole' returned 'ab c' at \[0, 4\); expected words without white space",
        ),
        ("relatum.data.splitting:split_sentences", "rules", "expected words without white space"),
        ("rules", "own_rules:first_letter", r"sentences = '.*:first_letter' left out 'b' at \[1, 2\); expected"),
    ],
)
def test_splitter_reports_rules_that_break_the_contract(words: str, sentences: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_splitter(words, sentences).split("ab c")
