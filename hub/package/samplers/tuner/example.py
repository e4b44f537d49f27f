import random

import optuna
import optunahub


def objective(trial: optuna.Trial) -> float:
    """Return a parabola with noise."""
    x = trial.suggest_float("x", -5, 5)
    return x**2 + random.gauss(0, 1)


if __name__ == "__main__":
    TunerSampler = optunahub.load_module(package="samplers/tuner").TunerSampler
    study = optuna.create_study(sampler=TunerSampler(seed=1))
    study.optimize(objective, n_trials=100)
    print(TunerSampler.recommended(study))
