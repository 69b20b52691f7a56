//! The io_uring protocol: the memory that an entry shares with the kernel, and the two commands.

use super::kernel_structures;

/// Gives the kernel an entry: the memory for one request and its answer.
pub const REGISTER: u32 = 1;
/// Answers the request of an entry and gives the entry back for the next one.
pub const COMMIT_AND_FETCH: u32 = 2;

/// The memory of an entry is described by two ranges: its header, and its payload.
pub const RANGES: usize = 2;
/// The header of an entry first has room for the header of the request or the answer,
pub const HEADER_IN_OUT: usize = 0;
/// then for the structure of the first argument,
pub const HEADER_ARGUMENT: usize = 128;
/// then for an [`EntryInOut`].
pub const HEADER_ENTRY: usize = 256;
pub const HEADER_SIZE: usize = HEADER_ENTRY + size_of::<EntryInOut>();

kernel_structures! {
    EntryInOut {
        flags: u64,
        /// The value that the answering command must carry.
        commit_id: u64,
        /// How much of the payload is used, by the request or by the answer.
        payload_sz: u32,
        padding: u32,
        reserved: u64,
    }

    /// The part of a command that only the FUSE driver reads.
    Command {
        flags: u64,
        commit_id: u64,
        /// The queue, which is the number of a CPU.
        qid: u16,
        padding: [u8; 6],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_kernel() {
        assert_eq!((HEADER_SIZE, size_of::<Command>()), (288, 24));
    }
}
