//! The memory allocator of the module: decoding allocates a lot, from many threads.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
