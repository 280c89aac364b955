"""plan_verb: a mistyped name is refused at once."""

import subprocess
import sys


def test_what_is_no_sweep_file_is_refused_before_anything_is_loaded() -> None:
    """Torch, Ray and the rest take ten seconds, which a mistyped name should not cost."""
    script = (
        "import sys; from labeldp.platform.cli.command_line import main; "
        "code = main(['plan', 'nosuch.py']); "
        "print(code, sorted({'numpy', 'torch', 'ray', 'sklearn', 'omegaconf'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "2 []\n"
    assert "nosuch.py is no sweep file" in done.stderr
