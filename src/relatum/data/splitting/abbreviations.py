"""Words that say whether a dot or a line ends a sentence, all without the dot."""

import re

# A dot after these never ends a sentence: a name, a number or an example follows.
LEADING = frozenset(
    """Dr Drs Mr Mrs Ms Messrs Mme Mlle Prof Rev Hon Sen Sens Rep Reps Gov Govs Pres Gen Col Lt Maj Capt Cmdr Cpl Sgt
    Adm Brig Pvt Supt Insp Atty Ste Mt Ft Fig Figs fig figs Eq Eqs eq eqs Ref Refs Sect Tab Suppl suppl e.g E.g eg
    i.e I.e ie viz cf Cf c.f vs Vs approx Approx ca incl esp""".split()
)
# A dot after these ends the sentence before a capital and not before a number.
NUMBERED = frozenset("No Nos no nos Nr Vol Vols vol vols p pp Ch ch Art Sec sec Op op Chap chap etc".split())
# A dot after these may belong to the word, end the sentence, or both: the next word decides.
TRAILING = frozenset(
    """Inc Corp Co Cos Ltd Bros Assn Dept Univ Inst Intl Natl Jr Sr Esq Ph.D al resp St Ave Blvd Rd Hwy sp spp var
    Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thur Thurs Fri""".split()
)
# Like those, but news sets a comma after `Omaha, Neb.` inside a sentence, so without one it ends there.
REGIONS = frozenset(
    """Ala Ariz Ark Calif Colo Conn Del Fla Ga Ill Ind Kan Ky La Mass Md Mich Minn Miss Mo Mont Neb Nev Okla Ore Ont Pa
    Penn Que Tenn Tex Va Vt Wash Wis Wyo W.Va N.C N.D N.H N.J N.M N.Y S.C S.D R.I D.C B.C""".split()
)
# A single letter after these is no initial.
LETTERED = frozenset(
    """amphotericin antigen appendix bleomycin ciclosporin class cyclosporin cyclosporine factor grade group hepatitis
    immunoglobulin influenza mitomycin part phase plan point polymyxin section stage strain toxin type
    vitamin""".split()
)
# Capitalised words that seldom follow an abbreviation or an initial except at the start of a sentence.
STARTERS = frozenset(
    """A About According Additionally After All Also Although Among An And Another Any Are As At Because Before Both But
    By Can Conclusion Conclusions Despite Did Do Does Due During Each Even Every Finally First Following For From
    Further Furthermore Given Had Has Have He Her Here His How However I If In Instead Is It Its Last Later Like
    Many Meanwhile More Moreover Most My Neither Nevertheless No None Nor Not Now Of On Once One Only Or Other Our
    Overall Patients Recently Results Second Several She Similarly Since So Some Still Such That The Their Then
    There Therefore These They This Those Three Through Thus To Today Two Under Unlike Until Upon Using Was We Were
    What When Where Whether Which While Who Why Will With Within Without Would Yet You Your""".split()
)
# Words that a sentence and a heading seldom end with: more follows, on the next line too.
OPEN = frozenset(
    """a against an and are as at because between by during for from her his in into its my nor of on or our than that
    the their to under was were which while whose with within your""".split()
)

_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])*+")


def is_ambiguous(word: str) -> bool:
    """True if a dot after this word may or may not end the sentence: an abbreviation, an initial or `U.S`."""
    return word in TRAILING or word in REGIONS or _INITIALS.fullmatch(word) is not None


def is_abbreviation(word: str) -> bool:
    """True if a dot after this word may belong to the word."""
    return word in LEADING or word in NUMBERED or is_ambiguous(word)
