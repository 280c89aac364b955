"""Features in one company, labels in another: `python examples/two_companies.py`.

Each step is a command of `labeldp` that one company runs. They exchange two folders: `request` and
`release`.
"""

import subprocess

STEPS = {
    "made-up visits, of which 2% end in a purchase": "data make conversions --rows 20000 -o log",
    "features: what is asked": (
        "request log/features.parquet --id-column id --method clusters --classes no,yes -o request"
    ),
    "labels: the price, before anything is paid": (
        "release log/labels.parquet --id-column id --label-column bought --request request "
        "--epsilon 1 --budget 2 --dry-run -o release"
    ),
    "labels: the noisy answer": (
        "release log/labels.parquet --id-column id --label-column bought --request request "
        "--epsilon 1 --budget 2 -o release"
    ),
    "features: a model": "fit log/features.parquet --release release -o model",
    "features: predictions": "predict model log/test.parquet -o predictions.parquet",
}


def main() -> None:
    """Run all steps in the current folder."""
    for step, command in STEPS.items():
        print(f"# {step}\n$ labeldp {command}", flush=True)
        subprocess.run(["labeldp", *command.split()], check=True)


if __name__ == "__main__":
    main()
