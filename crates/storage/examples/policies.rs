//! Prints the hit ratios of all eviction policies on all mixes: the table in `docs/policies.md`.

fn main() {
    print!("{}", stylobate_storage::hit_ratio_table(42));
}
