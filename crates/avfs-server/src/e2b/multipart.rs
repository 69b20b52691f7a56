//! Files in a form (`multipart/form-data`), taken in as they come: no more of a form is in memory than one header, or one
//! piece of what has arrived.

/// What comes next in a form.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A file begins.
    File(FormFile),
    /// Some of its bytes.
    Bytes(Vec<u8>),
    /// It is whole.
    End,
}

/// The names of a file in a form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FormFile {
    pub field: String,
    pub filename: Option<String>,
}

/// Why a body is no form.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadForm {
    #[error("the type of the body names no boundary")]
    NoBoundary,
    #[error("the header of a part of the form is too long")]
    LongHeader,
    #[error("the form is not well formed")]
    Malformed,
    #[error("the form is not whole")]
    Cut,
}

/// The most bytes of the header of a part.
const HEADER_MAX: usize = 16 << 10;

const END_OF_HEADER: &[u8] = b"\r\n\r\n";

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before the first boundary.
    Begin,
    /// Behind a boundary: either a part follows, or nothing.
    Boundary,
    Header,
    Content,
    Over,
}

/// A form that comes.
pub(super) struct Form {
    /// With the line end before it, which is not part of the file.
    boundary: Vec<u8>,
    so_far: Vec<u8>,
    at: At,
}

impl Form {
    /// A form of this content type.
    pub fn begin(content_type: &str) -> Result<Form, BadForm> {
        let words = content_type.split(';').skip(1).map(str::trim);
        let mut found = words.filter_map(|word| word.split_once('='));
        let found = found.find(|(name, _)| name.eq_ignore_ascii_case("boundary"));
        let boundary = found
            .map(|(_, value)| value.trim_matches('"'))
            .unwrap_or_default();
        if !(1..=70).contains(&boundary.len()) {
            return Err(BadForm::NoBoundary);
        }
        Ok(Form {
            boundary: format!("\r\n--{boundary}").into_bytes(),
            // The first boundary has no line before it.
            so_far: b"\r\n".to_vec(),
            at: At::Begin,
        })
    }

    /// Takes in what came.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Piece>, BadForm> {
        self.so_far.extend_from_slice(bytes);
        let mut pieces = Vec::new();
        while self.step(&mut pieces)? {}
        Ok(pieces)
    }

    /// There is no more.
    pub fn finish(&self) -> Result<(), BadForm> {
        match self.at {
            At::Over => Ok(()),
            _ => Err(BadForm::Cut),
        }
    }

    /// Goes on by one step; not, if more has to come first.
    fn step(&mut self, pieces: &mut Vec<Piece>) -> Result<bool, BadForm> {
        match self.at {
            At::Begin => {
                let Some(at) = position(&self.so_far, &self.boundary) else {
                    self.drop_all_but_a_boundary();
                    return Ok(false);
                };
                self.so_far.drain(..at + self.boundary.len());
                self.at = At::Boundary;
            }
            At::Boundary => {
                let Some(next) = self.so_far.first_chunk::<2>() else {
                    return Ok(false);
                };
                self.at = match next {
                    b"--" => At::Over,
                    b"\r\n" => At::Header,
                    _ => return Err(BadForm::Malformed),
                };
                self.so_far.drain(..2);
            }
            At::Header => {
                let found = position(&self.so_far, END_OF_HEADER);
                // However it is cut: the end may have come by half.
                let length = found.unwrap_or((self.so_far.len() + 1).saturating_sub(END_OF_HEADER.len()));
                if length > HEADER_MAX {
                    return Err(BadForm::LongHeader);
                }
                let Some(at) = found else {
                    return Ok(false);
                };
                let header: Vec<u8> = self.so_far.drain(..at + 4).collect();
                pieces.push(Piece::File(names(&String::from_utf8_lossy(&header))?));
                self.at = At::Content;
            }
            At::Content => return Ok(self.content(pieces)),
            At::Over => {
                // What is behind the last boundary means nothing.
                self.so_far.clear();
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn content(&mut self, pieces: &mut Vec<Piece>) -> bool {
        let Some(at) = position(&self.so_far, &self.boundary) else {
            let sure = self.drop_all_but_a_boundary();
            if !sure.is_empty() {
                pieces.push(Piece::Bytes(sure));
            }
            return false;
        };
        let rest: Vec<u8> = self.so_far.drain(..at + self.boundary.len()).take(at).collect();
        if !rest.is_empty() {
            pieces.push(Piece::Bytes(rest));
        }
        pieces.push(Piece::End);
        self.at = At::Boundary;
        true
    }

    /// Takes what cannot be the beginning of a boundary any more.
    fn drop_all_but_a_boundary(&mut self) -> Vec<u8> {
        let sure = self.so_far.len().saturating_sub(self.boundary.len() - 1);
        self.so_far.drain(..sure).collect()
    }
}

fn position(within: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    // A byte that the boundary begins with is rare in most files.
    while let Some(at) = within[from..].iter().position(|byte| *byte == first) {
        let at = from + at;
        if within[at..].starts_with(wanted) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

fn names(header: &str) -> Result<FormFile, BadForm> {
    let lines = header.split("\r\n").filter_map(|line| line.split_once(':'));
    let mut lines = lines.filter(|(name, _)| name.trim().eq_ignore_ascii_case("content-disposition"));
    let (_, disposition) = lines.next().ok_or(BadForm::Malformed)?;
    let field = parameter(disposition, "name").ok_or(BadForm::Malformed)?;
    Ok(FormFile {
        field,
        filename: parameter(disposition, "filename"),
    })
}

/// A quoted parameter. Clients write a quotation mark and line ends in it as percent signs and digits, and nothing else.
fn parameter(text: &str, name: &str) -> Option<String> {
    let begin = format!("; {name}=\"");
    let (_, rest) = text.split_once(&begin)?;
    let (value, _) = rest.split_once('"')?;
    let value = value
        .replace("%22", "\"")
        .replace("%0D", "\r")
        .replace("%0A", "\n");
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=ab";

    /// The files of a form that comes in pieces of this size.
    fn read(body: &[u8], size: usize) -> Result<Vec<(Option<String>, Vec<u8>)>, BadForm> {
        let mut form = Form::begin(TYPE)?;
        let mut files: Vec<(Option<String>, Vec<u8>)> = Vec::new();
        for bytes in body.chunks(size) {
            for piece in form.push(bytes)? {
                match piece {
                    Piece::File(file) => files.push((file.filename, Vec::new())),
                    Piece::Bytes(bytes) => files.last_mut().unwrap().1.extend(bytes),
                    Piece::End => {}
                }
            }
        }
        form.finish()?;
        Ok(files)
    }

    #[test]
    fn files_are_whole_however_a_form_is_cut() {
        let body = b"--ab\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a b%22\xc3\xa9\"\r\n\
            Content-Type: text/plain\r\n\r\none\r\n--a\r\n--\r\n--ab\r\n\
            content-disposition: form-data; name=\"file\"; filename=\"empty\"\r\n\r\n\r\n--ab\r\n\
            Content-Disposition: form-data; name=\"file\"\r\n\r\n\r\n\r\n\r\n--ab--\r\nafter";
        let expected = [
            (Some("a b\"é".to_owned()), b"one\r\n--a\r\n--".to_vec()),
            (Some("empty".to_owned()), b"".to_vec()),
            (None, b"\r\n\r\n".to_vec()),
        ];
        for size in 1..=body.len() {
            assert_eq!(read(body, size).unwrap(), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn malformed_form_is_refused() {
        for (body, expected) in [
            (&b""[..], BadForm::Cut),
            (b"--ab\r\n", BadForm::Cut),
            (
                b"--ab\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\nx",
                BadForm::Cut,
            ),
            (
                b"--ab\r\nContent-Type: text/plain\r\n\r\nx\r\n--ab--",
                BadForm::Malformed,
            ),
            (b"--abcd", BadForm::Malformed),
            (
                &[b"--ab\r\n".to_vec(), vec![b'x'; HEADER_MAX + 4]].concat()[..],
                BadForm::LongHeader,
            ),
        ] {
            assert_eq!(read(body, 4096).unwrap_err(), expected);
        }
        assert_eq!(
            Form::begin("multipart/form-data").err(),
            Some(BadForm::NoBoundary)
        );
    }

    /// Whatever comes, in whatever pieces: the same files or the same refusal, and never more bytes than came.
    #[test]
    fn damaged_forms() {
        let part = |name: &str, text: &str| {
            format!("--ab\r\nContent-Disposition: form-data; name=\"file\"{name}\r\n\r\n{text}\r\n")
        };
        let seeds = [
            format!(
                "{}{}--ab--\r\n",
                part("; filename=\"a\"", "one"),
                part("", "\r\n--a")
            ),
            format!("before\r\n{}--ab--after", part("; filename=\"%22%0D\"", "")),
            format!("{}{}--ab--", part("", &"x".repeat(100)), "\r\n".repeat(20)),
            format!("--ab\r\nX: {}\r\n\r\n--ab--", "y".repeat(HEADER_MAX)),
        ];
        let seeds = seeds.map(String::into_bytes);
        let mut size = 0;
        avfs_testkit::fuzz(&seeds, |bytes| {
            size = size % 40 + 1;
            let whole = read(bytes, bytes.len().max(1));
            assert_eq!(read(bytes, size), whole, "in pieces of {size}: {bytes:?}");
            let files = whole.unwrap_or_default();
            let content: usize = files.iter().map(|(_, content)| content.len()).sum();
            assert!(content <= bytes.len());
        });
    }
}
