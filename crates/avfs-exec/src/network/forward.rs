//! Bytes between two connections, until both sides have said all.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};

use super::body::Body;

/// Copies in both directions. The end of one direction is passed on; the other may still have something to say.
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

/// Copies the body of one request, of which `begun` has come already, and all of its answer.
pub(super) fn one_request(
    inside: &TcpStream,
    outside: &TcpStream,
    body: Body,
    begun: &[u8],
) -> io::Result<()> {
    let answer = (outside.try_clone()?, inside.try_clone()?);
    let back = std::thread::Builder::new()
        .name("proxy-back".to_owned())
        .spawn(move || one_way(&answer.0, &answer.1))?;
    let mut to = outside;
    match body.copy(&mut BufReader::new(begun.chain(inside)), &mut to) {
        // Whatever else is said inside is for nobody; the end of it tells that the answer is not waited for any more.
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
    // Whoever is gone need not be told.
    to.shutdown(Shutdown::Write).ok();
    from.shutdown(Shutdown::Read).ok();
}
