"""Fashion-MNIST-Recourse: turn one kind of clothing into another (paper, Table 28).

The paper says "low-confidence class -> target class" and names neither. Here: Shirt, the class that
networks are least sure of, to T-shirt/top, which it is most often taken for; both are settings,
`data.target`. 70,000 images, 28 x 28, of which a pair of classes has 14,000.
"""

from pathlib import Path

from cfq_bench.data.idx import idx_files, load_idx
from cfq_bench.data.images import Images

FOLDER = "fashion_mnist/FashionMNIST/raw"
_PAGE = "https://github.com/zalandoresearch/fashion-mnist"
_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_SHA256 = {
    "train-images-idx3-ubyte.gz": (
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"
    ),
    "train-labels-idx1-ubyte.gz": (
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"
    ),
    "t10k-images-idx3-ubyte.gz": (
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"
    ),
    "t10k-labels-idx1-ubyte.gz": (
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"
    ),
}
FILES = idx_files(FOLDER, _PAGE, _URL, _SHA256)
CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def load(data_dir: Path | None) -> Images:
    """Read the four files; the attribute is `article`, a name of `CLASSES`."""
    return load_idx(FILES, data_dir, "article", CLASSES)
