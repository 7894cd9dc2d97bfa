//! Memory for the buffers of connections: two or three of 8 kB each, taken when a client comes and given back when it goes.
//!
//! mimalloc gives a page of such buffers back with the last of them, and the next connection gets another one. While memory is short,
//! that one went back to the system before: the kernel clears a huge page at its first touch, 2 to 4 ms beside long searches, and a
//! short request waits for it. These places stay, 2 MB at most.
//!
//! Not here: any other size, and connections beyond the places; both are mimalloc's.

use super::places::Places;

/// The one size that is served: the first size of hyper's buffers.
pub(super) const BYTES: usize = 8 << 10;

/// 256 buffers. A buffer that is taken has any content.
pub(super) static BUFFERS: Places<BYTES, 4> = Places::new(64);
