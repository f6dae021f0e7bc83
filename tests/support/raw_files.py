"""Small made-up raw files in the published formats of Adult, Bank and Default."""

from pathlib import Path

import numpy as np

from cfq_bench.data import adult, bank

BANK_HEADER = (
    '"age";"job";"marital";"education";"default";"balance";"housing";"loan";"contact";"day";'
    '"month";"duration";"campaign";"pdays";"previous";"poutcome";"y"'
)
DEFAULT_HEADER = (
    '"ID","LIMIT_BAL","SEX","EDUCATION","MARRIAGE","AGE","PAY_0","PAY_2","PAY_3","PAY_4","PAY_5",'
    '"PAY_6","BILL_AMT1","BILL_AMT2","BILL_AMT3","BILL_AMT4","BILL_AMT5","BILL_AMT6","PAY_AMT1",'
    '"PAY_AMT2","PAY_AMT3","PAY_AMT4","PAY_AMT5","PAY_AMT6","default.payment.next.month"'
)


def write_raw_files(folder: Path) -> Path:
    """Write all three data sets below a folder, as a user's data folder has them."""
    rng = np.random.default_rng(0)
    for name in ("adult", "bank", "default_credit"):
        (folder / name).mkdir(parents=True)
    train = [_adult_row(rng, i, "") for i in range(60)]
    test = [_adult_row(rng, i, ".") for i in range(30)]
    (folder / "adult/adult.data").write_text("\n".join(train) + "\n\n")
    (folder / "adult/adult.test").write_text("|1x3 Cross validator\n" + "\n".join(test) + "\n\n")
    rows = [_bank_row(rng, i) for i in range(90)]
    (folder / "bank/bank-full.csv").write_text("\n".join([BANK_HEADER, *rows]) + "\n")
    rows = [_default_row(rng, i) for i in range(90)]
    target = folder / "default_credit/UCI_Credit_Card.csv"
    target.write_text("\n".join([DEFAULT_HEADER, *rows]) + "\n")
    return folder


def _adult_row(rng: np.random.Generator, i: int, stop: str) -> str:
    code = {name: str(rng.choice(values)) for name, values in adult.CODES.items()}
    values = [
        int(rng.integers(17, 90)),
        code["workclass"],
        int(rng.integers(12_285, 1_484_705)),
        "Bachelors",
        int(rng.integers(1, 17)),
        code["marital_status"],
        code["occupation"],
        code["relationship"],
        code["race"],
        code["sex"],
        int(rng.integers(0, 2)) * 2174,
        int(rng.integers(0, 2)) * 1902,
        int(rng.integers(1, 99)),
        code["native_country"],
        (">50K" if i % 4 == 0 else "<=50K") + stop,
    ]
    return ", ".join(map(str, values))


def _bank_row(rng: np.random.Generator, i: int) -> str:
    code = {name: f'"{rng.choice(values)}"' for name, values in bank.CODES.items()}
    contacted = i % 3 == 0
    values = [
        int(rng.integers(18, 95)),
        *(code[name] for name in ("job", "marital", "education", "default")),
        int(rng.integers(-8019, 20_000)),
        *(code[name] for name in ("housing", "loan", "contact")),
        int(rng.integers(1, 32)),
        code["month"],
        int(rng.integers(0, 900)),
        int(rng.integers(1, 9)),
        int(rng.integers(1, 800)) if contacted else -1,
        int(rng.integers(1, 5)) if contacted else 0,
        code["poutcome"],
        '"yes"' if i % 5 == 0 else '"no"',
    ]
    return ";".join(map(str, values))


def _default_row(rng: np.random.Generator, i: int) -> str:
    values = [
        i + 1,
        int(rng.integers(1, 100)) * 10_000,
        1 + i % 2,
        i % 7,
        i % 4,
        int(rng.integers(21, 79)),
        *rng.integers(-2, 9, 6).tolist(),
        *rng.integers(-300, 90_000, 6).tolist(),
        *rng.integers(0, 20_000, 6).tolist(),
        int(i % 4 == 0),
    ]
    return ",".join(map(str, values))
