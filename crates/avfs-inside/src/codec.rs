//! The encoding of values between launcher and stage, which always come from the same build.

/// Concatenates values.
#[derive(Default)]
pub(super) struct SpecEncoder(Vec<u8>);

impl SpecEncoder {
    pub(super) fn number(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        let mut own = self.number(bytes.len() as u64);
        own.0.extend_from_slice(bytes);
        own
    }

    /// `None` is written as zero, everything else as one higher.
    pub(super) fn maybe(self, number: Option<u64>) -> Self {
        self.number(number.map_or(0, |number| number.saturating_add(1)))
    }

    pub(super) fn list<T>(self, items: &[T], each: impl Fn(Self, &T) -> Self) -> Self {
        let own = self.number(items.len() as u64);
        items.iter().fold(own, each)
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Decodes them. Every method returns `None` if there are too few bytes.
pub(super) struct SpecDecoder<'a>(&'a [u8]);

impl<'a> SpecDecoder<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    pub(super) fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(self.number()?).ok()?;
        let (first, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(first.to_vec())
    }

    pub(super) fn maybe(&mut self) -> Option<Option<u64>> {
        Some(self.number()?.checked_sub(1))
    }

    pub(super) fn list<T>(&mut self, mut each: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        (0..count).map(|_| each(self)).collect()
    }

    /// The value, if nothing is left over.
    pub(super) fn end<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}
