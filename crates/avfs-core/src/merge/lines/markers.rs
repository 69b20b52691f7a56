//! The merged text, with markers around conflicts.

use super::{DifferingRegion, MarkerStyle, RegionVerdict, SideNames};

pub(super) struct MarkerWriter<'a> {
    pub base: &'a [&'a [u8]],
    pub ours: &'a [&'a [u8]],
    pub theirs: &'a [&'a [u8]],
    pub names: &'a SideNames,
}

impl MarkerWriter<'_> {
    pub(crate) fn write(&self, regions: &[DifferingRegion]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut position = 0;
        for region in regions {
            out.extend(self.ours[position..region.ours.start].concat());
            match region.verdict {
                RegionVerdict::Ours => out.extend(self.ours[region.ours.clone()].concat()),
                RegionVerdict::Theirs => out.extend(self.theirs[region.theirs.clone()].concat()),
                RegionVerdict::Conflict => self.conflict(&mut out, region),
            }
            position = region.ours.end;
        }
        out.extend(self.ours[position..].concat());
        out
    }

    fn conflict(&self, out: &mut Vec<u8>, region: &DifferingRegion) {
        let ending: &[u8] = if self.ends_with_cr(region) { b"\r\n" } else { b"\n" };
        marker(out, b'<', &self.names.ours, ending);
        whole_lines(out, &self.ours[region.ours.clone()], ending);
        if self.names.style == MarkerStyle::Diff3 {
            marker(out, b'|', &self.names.base, ending);
            whole_lines(out, &self.base[region.base.clone()], ending);
        }
        marker(out, b'=', "", ending);
        whole_lines(out, &self.theirs[region.theirs.clone()], ending);
        marker(out, b'>', &self.names.theirs, ending);
    }

    /// Markers have the same line ending as the lines around them. If any side uses a bare line feed, so do
    /// the markers.
    fn ends_with_cr(&self, region: &DifferingRegion) -> bool {
        has_cr(self.ours, region.ours.start.saturating_sub(1)) != Some(false)
            && has_cr(self.theirs, region.theirs.start.saturating_sub(1)) != Some(false)
            && has_cr(self.base, 0) == Some(true)
    }
}

fn marker(out: &mut Vec<u8>, sign: u8, name: &str, ending: &[u8]) {
    out.extend([sign; 7]);
    if !name.is_empty() {
        out.push(b' ');
        out.extend(name.as_bytes());
    }
    out.extend(ending);
}

/// A last line without an ending gets one: a marker follows.
fn whole_lines(out: &mut Vec<u8>, lines: &[&[u8]], ending: &[u8]) {
    out.extend(lines.concat());
    if lines.last().is_some_and(|line| !line.ends_with(b"\n")) {
        out.extend(ending);
    }
}

/// Whether a line ends with a carriage return and a line feed. A last line without an ending is taken to end
/// as the one before it does.
fn has_cr(lines: &[&[u8]], index: usize) -> Option<bool> {
    let line = lines.get(index)?;
    let line = if line.ends_with(b"\n") {
        line
    } else {
        lines.get(index.checked_sub(1)?)?
    };
    Some(line.ends_with(b"\r\n"))
}
