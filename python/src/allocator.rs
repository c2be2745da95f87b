//! The memory allocator of the module: decoding allocates much, and from many threads.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
