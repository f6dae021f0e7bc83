"""Default of Credit Card Clients: will this client miss next month's payment?

30,000 clients of a bank in Taiwan, 2005: limit, repayment status, bills and payments of six months.
Favourable: no default. The raw file is the CSV form, ``UCI_Credit_Card.csv``. UCI itself ships a
spreadsheet with the same rows, so a download is written as that CSV and verified as such.

What differs from the paper's Tables 4 and 5:
- The split, 24,000 + 6,000, the positive rate, 0.78, and 3 categorical groups are matched.
- The paper's width, d = 23, is the number of raw columns: codes of sex, education and marriage as
  numbers. Here they are one-hot, so d = 29: a point halfway between "married" and "single" is no
  point.
- Codes outside the documentation (education 0, 5, 6 and marriage 0: 399 clients) are pooled with
  the documented "others".
- "Immutable dims 1" is sex. Age may then only increase. The preset `strict` fixes more.
- "Box + nonnegativity": bills and payments have 0 as their least value; a client whose bill is
  negative (a credit balance) keeps it.
"""

from pathlib import Path

import xlrd
from xlrd.biffh import XLRDError

from cfq_bench.data.reading import read_csv
from cfq_bench.data.sources import RawFile, obtain
from cfq_bench.data.table import Table, with_categories


def csv_of_spreadsheet(content: bytes) -> bytes:
    """UCI's spreadsheet as the CSV file, byte for byte.

    The names stand in its second line. The CSV was written by R: names are quoted, and a number
    is written as 1e+05 where that is shorter.

    Raises:
        ValueError: not a spreadsheet with these columns.
    """
    try:
        sheet = xlrd.open_workbook(file_contents=content).sheet_by_index(0)
        _, names, *rows = (sheet.row_values(i) for i in range(sheet.nrows))
        numbers = [[whole_number(int(value)) for value in row] for row in rows]
    except (XLRDError, ValueError) as error:
        raise ValueError(f"no spreadsheet of whole numbers: {error}") from None
    header = [f'"{str(name).replace(" ", ".")}"' for name in names]
    return "".join(f"{','.join(line)}\n" for line in (header, *numbers)).encode()


def whole_number(value: int) -> str:
    """A whole number in fixed notation, or in scientific notation where that is shorter.

    >>> whole_number(500_000), whole_number(-120_000)
    ('5e+05', '-120000')
    """
    fixed = str(value)
    digits = fixed.lstrip("-").rstrip("0")
    mantissa = digits[:1] + ("." + digits[1:] if len(digits) > 1 else "")
    scientific = f"{'-' * (value < 0)}{mantissa}e+{len(str(abs(value))) - 1:02d}"
    return scientific if digits and len(scientific) < len(fixed) else fixed


FILES = (
    RawFile(
        "default_credit",
        "UCI_Credit_Card.csv",
        "a0f0ab49d6326671d6cd83be5c88dcf18007025fe9a53ecd699119c871176ca1",
        "https://www.kaggle.com/datasets/uciml/default-of-credit-card-clients-dataset",
        "https://archive.ics.uci.edu/static/public/350/default+of+credit+card+clients.zip",
        member="default of credit card clients.xls",
        convert=csv_of_spreadsheet,
    ),
)
CODES: dict[str, dict[int, str]] = {
    "SEX": {1: "male", 2: "female"},
    "EDUCATION": {
        1: "graduate school",
        2: "university",
        3: "high school",
        4: "others",
        0: "others",
        5: "others",
        6: "others",
    },
    "MARRIAGE": {1: "married", 2: "single", 3: "others", 0: "others"},
}


def load(data_dir: Path | None) -> Table:
    """Read the file and give its codes their documented names."""
    path = obtain(FILES[0], data_dir)
    frame = read_csv(path)
    for name, codes in CODES.items():
        if name in frame:  # a missing column is named when the table is checked
            frame[name] = frame[name].map(lambda code, codes=codes: codes.get(code, code))
    categories = {name: list(dict.fromkeys(codes.values())) for name, codes in CODES.items()}
    return Table(with_categories(frame, categories, str(path)), str(path))
