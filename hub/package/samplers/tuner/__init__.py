from tuner.search.sampler import Recommendation, TunerSampler

__all__ = ["Recommendation", "TunerSampler"]
