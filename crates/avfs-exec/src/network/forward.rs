//! Copies bytes between two connections, until both sides have finished.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};

use super::body::BodyLength;

/// Copies in both directions. The end of one direction is passed on; the other one may continue.
pub(super) fn both_ways(inside: &TcpStream, outside: &TcpStream) -> io::Result<()> {
    let answer = (outside.try_clone()?, inside.try_clone()?);
    let back = std::thread::Builder::new()
        .name("proxy-back".to_owned())
        .spawn(move || one_way(&answer.0, &answer.1))?;
    one_way(inside, outside);
    // A panic there would be one in `read` or `write`.
    back.join().ok();
    Ok(())
}

/// Copies the body of one request, of which `begun` has already arrived, and its complete answer.
pub(super) fn one_request(
    inside: &TcpStream,
    outside: &TcpStream,
    body: BodyLength,
    begun: &[u8],
) -> io::Result<()> {
    let answer = (outside.try_clone()?, inside.try_clone()?);
    let back = std::thread::Builder::new()
        .name("proxy-back".to_owned())
        .spawn(move || one_way(&answer.0, &answer.1))?;
    let mut to = outside;
    match body.copy(&mut BufReader::new(begun.chain(inside)), &mut to) {
        // Further bytes from inside are discarded; their end shows that the client no longer waits for the
        // answer.
        Ok(()) => drop(io::copy(&mut { inside }, &mut io::sink())),
        Err(_) => drop(outside.shutdown(Shutdown::Both)),
    }
    outside.shutdown(Shutdown::Write).ok();
    // A panic there would be one in `read` or `write`.
    back.join().ok();
    Ok(())
}

fn one_way(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from, to);
    let mut buffer = [0_u8; 16 << 10];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => 0,
        };
        if count == 0 || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // The other side may be gone.
    to.shutdown(Shutdown::Write).ok();
    from.shutdown(Shutdown::Read).ok();
}
