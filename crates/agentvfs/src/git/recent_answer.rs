//! The last answer of git to a question that many runs ask, one shortly after the other.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an answer is remembered. Many sandboxes are opened one after the other, and each start of a program copies
/// the tables of this process.
const REMEMBERED: Duration = Duration::from_secs(2);

/// The answer about the last subject, and when it was given.
pub(super) struct RecentAnswer<S, A>(Mutex<Option<(Instant, S, A)>>);

impl<S: PartialEq + Clone, A: Clone> RecentAnswer<S, A> {
    pub(super) const fn new() -> RecentAnswer<S, A> {
        RecentAnswer(Mutex::new(None))
    }

    /// The answer, asked for by one thread at a time. A failure is not remembered.
    pub(super) fn recall<E>(
        &self,
        now: Instant,
        subject: &S,
        ask: impl FnOnce() -> Result<A, E>,
    ) -> Result<A, E> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((when, known, answer)) = &*last
            && known == subject
            && now.saturating_duration_since(*when) < REMEMBERED
        {
            return Ok(answer.clone());
        }
        let answer = ask()?;
        *last = Some((now, subject.clone(), answer.clone()));
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_is_asked_again_after_a_while_about_another_subject_and_after_a_failure() {
        let memory = RecentAnswer::new();
        let answer = |words: &str| Ok::<_, ()>(vec![words.to_owned()]);
        let start = Instant::now();
        assert_eq!(memory.recall(start, &1, || Err(())), Err(()));
        assert_eq!(memory.recall(start, &1, || answer("one")), answer("one"));
        assert_eq!(memory.recall(start, &1, || answer("two")), answer("one"));
        assert_eq!(memory.recall(start, &2, || answer("other")), answer("other"));
        assert_eq!(
            memory.recall(start + REMEMBERED, &2, || answer("two")),
            answer("two")
        );
    }
}
