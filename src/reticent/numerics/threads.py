"""How the threads of torch wait for each other on a machine that other processes use too.

Torch shares the work of every operation among OpenMP threads, by default one per core. Whoever is done first spins: it
keeps its core busy until the others are done. Where another process holds one of their cores, all wait for the slowest
thread, and their spinning takes the core from the very thread that they wait for. A passive wait sleeps instead.

Seconds to encode 800 short texts with `minilm()` on two cores (wall clock / processor, medians of three runs):

                                  alone        beside one busy process
    torch's default             1.9 / 3.7            7.2 / 8.7
    OMP_WAIT_POLICY=PASSIVE     2.7 / 3.7            3.6 / 3.5
    OMP_NUM_THREADS=1           3.1 / 3.1            3.2 / 3.1

Beside several busy processes the default is far worse: 117 seconds in a run at a load of 6, where a passive wait took 8
at a load of 5. So waiting is made passive, and the number of threads stays torch's own. That is slower on an
idle machine, and much faster on a shared one. How threads wait changes no feature. How many there are may change last
bits: MKL has other kernels for two threads than for one on processors of Intel, and the same on those of AMD.
"""

import os
import sys

_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")


def wait_passively() -> None:
    """Makes OpenMP threads sleep while they wait; called before torch is imported, because OpenMP reads it then.

    What the user chose stays: nothing happens where one of the variables is set that say how threads wait, nor where
    torch has been imported already. Processes that this one starts inherit the choice.

    Guarantees:
      - Torch that is imported by us waits passively.                test_threads_wait_passively
      - A user's own setting is kept.                                test_a_setting_of_the_user_is_kept,
                                                 test_torch_that_the_user_imported_is_not_reconfigured
    """
    if "torch" not in sys.modules and not any(name in os.environ for name in _WAITING):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
