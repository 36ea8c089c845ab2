//! A session's history as the JSON text that is sent: written once, sent from where it lies.

use std::io::IoSlice;
use std::sync::Arc;

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

const END: &[u8] = b"]}";

/// The body of a session's requests, less its end: pieces in order.
#[derive(Clone)]
pub struct History {
    /// Up to and with the system message: the same for every session.
    head: &'static [u8],
    /// Messages, each piece with its leading comma.
    pieces: Vec<Box<[u8]>>,
    length: usize,
}

impl History {
    pub fn new(head: &'static [u8]) -> History {
        History { head, pieces: Vec::new(), length: head.len() + END.len() }
    }

    pub fn push(&mut self, piece: Vec<u8>) {
        self.length += piece.len();
        self.pieces.push(piece.into_boxed_slice());
    }

    /// Piece `at` of the body: the head, the messages, the end.
    fn piece(&self, at: usize) -> &[u8] {
        match at {
            0 => self.head,
            at => self.pieces.get(at - 1).map_or(END, |piece| piece),
        }
    }

    fn count(&self) -> usize {
        self.pieces.len() + 2
    }
}

/// One sending of a history: a body of one frame, written with vectored writes.
pub struct Sending(Option<Arc<History>>);

impl Sending {
    pub fn new(history: &Arc<History>) -> Sending {
        Sending(Some(history.clone()))
    }
}

impl Body for Sending {
    type Data = Unsent;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Unsent>, Infallible>>> {
        let unsent = self.0.take().map(|history| Unsent {
            remaining: history.length,
            history,
            at: 0,
            offset: 0,
        });
        Poll::Ready(unsent.map(|unsent| Ok(Frame::data(unsent))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |history| history.length as u64))
    }
}

/// What is left to send of a history.
pub struct Unsent {
    history: Arc<History>,
    remaining: usize,
    at: usize,
    offset: usize,
}

impl Buf for Unsent {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        if self.remaining == 0 {
            return &[];
        }
        &self.history.piece(self.at)[self.offset..]
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        if self.remaining == 0 {
            return 0;
        }
        let pieces = (self.at..self.history.count()).map(|at| self.history.piece(at));
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(pieces) {
            *slice = IoSlice::new(if count == 0 { &piece[self.offset..] } else { piece });
            count += 1;
        }
        count
    }

    fn advance(&mut self, mut count: usize) {
        self.remaining -= count;
        loop {
            let left = self.history.piece(self.at).len() - self.offset;
            if count < left || self.remaining == 0 {
                self.offset += count;
                return;
            }
            count -= left;
            self.at += 1;
            self.offset = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(count: usize) -> Arc<History> {
        let mut history = History::new(b"head");
        for k in 0..count {
            history.push(format!(",piece {k}").into_bytes());
        }
        Arc::new(history)
    }

    fn unsent(history: &Arc<History>) -> Unsent {
        Unsent { history: history.clone(), remaining: history.length, at: 0, offset: 0 }
    }

    #[test]
    fn every_way_of_writing_sends_the_same() {
        let history = history(3);
        let expected = b"head,piece 0,piece 1,piece 2]}";
        assert_eq!(history.length, expected.len());
        for step in 1..=expected.len() {
            let mut rest = unsent(&history);
            let mut sent = Vec::new();
            while rest.has_remaining() {
                let chunk = rest.chunk();
                let count = step.min(chunk.len());
                sent.extend_from_slice(&chunk[..count]);
                rest.advance(count);
            }
            assert_eq!(sent, expected, "chunks of {step}");

            let mut rest = unsent(&history);
            let mut sent = Vec::new();
            while rest.has_remaining() {
                let mut slices = [IoSlice::new(&[]); 2];
                let count = rest.chunks_vectored(&mut slices);
                let all: Vec<u8> =
                    slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
                let count = step.min(all.len());
                sent.extend_from_slice(&all[..count]);
                rest.advance(count);
            }
            assert_eq!(sent, expected, "vectors, {step} at a time");
        }
    }

    #[test]
    fn one_vector_takes_it_all() {
        let history = history(10);
        let rest = unsent(&history);
        let mut slices = [IoSlice::new(&[]); 64];
        assert_eq!(rest.chunks_vectored(&mut slices), 12);
    }
}
