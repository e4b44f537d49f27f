"""Load generators behind one port. Adapters: native (tuner-loadgen); wrk2 and h2load later."""
