"""MNIST-Recourse: turn an image of some other digit into the target digit (paper, Table 28).

The paper does not name its target digit; here it is 8, `data.target.favourable`. 70,000 images of
handwritten digits, 28 x 28; rows are called ``train-0`` ... and ``test-0`` ... as in the files.
"""

from pathlib import Path

from cfq_bench.data.idx import idx_files, load_idx
from cfq_bench.data.images import Images

FOLDER = "mnist/MNIST/raw"
_PAGE = "https://github.com/cvdfoundation/mnist"
_URL = "https://ossci-datasets.s3.amazonaws.com/mnist"
_SHA256 = {
    "train-images-idx3-ubyte.gz": (
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
    ),
    "train-labels-idx1-ubyte.gz": (
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
    ),
    "t10k-images-idx3-ubyte.gz": (
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
    ),
    "t10k-labels-idx1-ubyte.gz": (
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"
    ),
}
FILES = idx_files(FOLDER, _PAGE, _URL, _SHA256)


def load(data_dir: Path | None) -> Images:
    """Read the four files; the attribute is `digit`, 0 to 9."""
    return load_idx(FILES, data_dir, "digit", tuple(range(10)))
