"""CFQ for knowledge distillation: a student that follows the teacher at recourse points too.

Paper, Table 24: a smaller student matches the teacher at factual inputs; the CFQ-style extension
also asks for its behaviour at x + delta_fp. The student is then quantized under the same objective.
"""

from cfq_bench.config.cfq import CFQSettings
from cfq_bench.config.compression import StudentSettings
from cfq_bench.methods.cfq import CFQ
from cfq_bench.methods.stages import Student


class Config(StudentSettings, CFQSettings):
    """CFQ's settings and the student's."""


class CFQStudent(Student, CFQ):
    """The CFQ loss, first of a smaller float network and then of its quantized copy."""

    config: Config
