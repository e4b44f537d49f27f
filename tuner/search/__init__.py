"""What to try next: Optuna proposes, successive halving decides who is measured again."""
