//! Numbers from a seed, for tests.

/// Numbers below what is asked for, by Knuth's linear congruential generator.
pub fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below.max(1)
    }
}
