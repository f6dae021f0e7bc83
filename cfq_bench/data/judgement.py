"""What a person may do to a feature, judged by its name and its values.

A draft's action set must not promise what nobody can do: grow younger, undo a default. What is
judged wrongly is one line to change; so where a name may mean either, the feature is fixed, or
marked for review.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from cfq_bench.config.actions import Direction


@dataclass(frozen=True)
class Judgement:
    """What may be done, and why."""

    action: Direction = "any"
    reason: str = ""
    personal: bool = False
    """Whether groups of its values are reported apart."""


@dataclass(frozen=True)
class _Rule:
    words: frozenset[str]
    """Whole words of a name."""
    starts: tuple[str, ...]
    """How a word of a name begins."""
    phrases: tuple[str, ...]
    """Words one after the other."""
    judgement: Judgement

    def fits(self, tokens: list[str]) -> bool:
        """Whether the words of a name are meant."""
        name = f" {' '.join(tokens)} "
        return (
            any(token in self.words for token in tokens)
            or any(token.startswith(self.starts) for token in tokens if self.starts)
            or any(f" {phrase} " in name for phrase in self.phrases)
        )


def _rule(words: str, judgement: Judgement, *phrases: str) -> _Rule:
    """`words`: whole ones, or beginnings that end in a star."""
    every = words.split()
    starts = tuple(word[:-1] for word in every if word.endswith("*"))
    return _Rule(frozenset(w for w in every if w[-1] != "*"), starts, phrases, judgement)


def _personal(reason: str) -> Judgement:
    return Judgement("immutable", reason, personal=True)


SEX, RACE, MARITAL = _personal("sex"), _personal("race"), _personal("marital status")
DATE = Judgement("immutable", "a date")
_PAST = Judgement("immutable", "the past")
_TIME = Judgement("immutable", "time passes by itself")
_HOME = Judgement("any", "review: where one lives may stand for race or origin")
_FAMILY = Judgement("any", "review: a family is no advice")
_OTHERS = Judgement("any", "review: somebody else's judgement")
# The first that fits decides. English, German, French and Spanish, without accents.
_RULES = (
    _rule("sex sexe sexo gender geschlecht* genre genero male female maennlich weiblich", SEX),
    _rule("race* racial rasse raza raca ethni* etni* skin hautfarbe", RACE),
    _rule(
        "national* nacional* citizen* native foreign* immigra* migra* staatsang* auslaender*",
        _personal("nationality or origin"),
        "country of birth",
        "birth country",
    ),
    _rule("relig* faith konfession*", _personal("religion")),
    _rule(
        "marital* marri* marriage familienstand spouse divorced widow* relationship matrimon*",
        MARITAL,
        "civil status",
        "estado civil",
        "etat civil",
        "personal status",
        "family status",
    ),
    _rule("disab* handicap* pregnan* veteran* behinder* discapa*", _personal("health or service")),
    _rule("birth* born dob yob dateofbirth geburt* naissance nacimiento", _personal("birth")),
    _rule("age ages alter lebensalter edad idade leeftijd agegroup", Judgement("immutable", "age")),
    _rule("id ids uuid guid ssn iban", Judgement("immutable", "an id")),
    _rule(
        "delinq* delq* dlq* default* bankrupt* arrears foreclos* derog* chargeoff* liens judgment* "
        "judgement* late overdue prior priors previous* prev history hist historic* past convict* "
        "arrest* juv juvenile felon* misd* offen* inquir* inq* recid* mahn* inkasso antecedent* "
        "impag* poutcome pdays retard* verzug*",
        _PAST,
        "charge off",
        "charged off",
        "days due",
    ),
    _rule(
        "since tenure seniority oldest earliest",
        _TIME,
        "time at",
        "years at",
        "months at",
        "emp length",
        "employment length",
        "years employed",
    ),
    _rule("date* datum fecha timestamp dt", DATE),
    _rule(
        "country region zip zipcode postal postcode plz postleitzahl city address county district "
        "neighbo* land stadt ville ciudad pays pais",
        _HOME,
    ),
    _rule(
        "child* dependent* dependant* kids household family kinder enfants hijos famil*", _FAMILY
    ),
    _rule("score* rating grade scoring schufa", _OTHERS),
)
_EDUCATION = _rule("educ* school* ausbildung bildung estudios", Judgement())
_SEXES = frozenset(
    "male female m f w man woman mann frau homme femme hombre mujer maennlich weiblich "
    "männlich masculin feminin masculino femenino".split()
)
_UNKNOWN = frozenset("unknown other divers diverse x".split())
_UNIONS = frozenset("divorced widowed separated never-married".split())
_RACES = frozenset("white caucasian black african-american asian hispanic".split())


def tokens(name: str) -> list[str]:
    """The words of a column's name, in lower case and without accents.

    >>> tokens("NumberOfTimes90DaysLate"), tokens("État_civil")
    (['number', 'of', 'times', '90', 'days', 'late'], ['etat', 'civil'])
    """
    plain = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    edges = (
        r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[a-zA-Z])(?=\d)|(?<=\d)(?=[a-zA-Z])"
    )
    return re.findall(r"[^\W_]+", re.sub(edges, "_", plain).lower())


def judge_name(name: str, number: bool) -> Judgement:
    """By the name alone.

    >>> judge_name("maritalStatus", number=False).reason, judge_name("Wage", number=True).action
    ('marital status', 'any')
    """
    words = tokens(name)
    for rule in _RULES:
        if rule.fits(words):
            return rule.judgement
    if _EDUCATION.fits(words):
        if number:
            return Judgement("increase_only", "education is not undone")
        return Judgement("any", "review: education is not undone, and categories have no direction")
    return Judgement()


def judge_words(values: Iterable[str]) -> Judgement | None:
    """By the categories of a column whose name says nothing; None where they say nothing either.

    >>> judge_words(["M", "F"]).reason
    'sex'
    """
    found = {value.strip().casefold() for value in values}
    if len(found - _UNKNOWN) == 2 and found <= _SEXES | _UNKNOWN:
        return SEX
    if found & _UNIONS and any("married" in value for value in found):
        return MARITAL
    if len(found & _RACES) >= 2:
        return RACE
    return None
