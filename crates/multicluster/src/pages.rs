//! How long the pages of a list are, and whether they hold objects or only their metadata. Pure.
//!
//! A server makes a page as a whole before it sends any of it: kcp takes some 20 ms for each megabyte, whatever is read of it.
//! So the first page is short, and the next one is longer where it was small.
//!
//! What is missing is known once the last page came. Large objects would make that last, and most of what is read would be
//! dropped, for of large objects a store keeps the metadata alone. So where a page is too long, the server is asked for the
//! metadata (`PartialObjectMetadataList`), for longer and longer pages, with a short page of whole objects in between that
//! tells whether they are large still. What is small among them is read whole when it is needed.

/// Objects of the first page, before it is known how large they are.
const FIRST: u32 = 4;
/// Objects a page at most.
const MOST: u32 = 500;
/// Bytes of a page. A longer one is not read to its end.
pub(super) const BYTES: usize = 2 << 20;
/// Bytes of a page of one object.
pub(super) const OBJECT_BYTES: usize = 16 << 20;
/// Objects of the page between two of metadata.
const PROBE: u32 = 4;
/// Objects of a page of metadata, at least and at most: some of them are small. The first page is waited for, and as short as
/// one of whole objects.
const METADATA: (u32, u32) = (MOST / 10, MOST / 2);

/// What the next page asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    /// Objects.
    pub limit: u32,
    pub is_metadata: bool,
}

impl Page {
    /// Bytes that are read of it.
    pub fn bytes(self) -> usize {
        if self.limit == 1 { OBJECT_BYTES } else { BYTES }
    }
}

#[derive(Debug)]
pub(super) struct Pages {
    /// Whether metadata is enough to know an object by, and the server gives it.
    takes_metadata: bool,
    next: Page,
    has_begun: bool,
    /// Objects of the last page of metadata, since which no page of whole objects was short.
    last: u32,
}

impl Pages {
    /// `takes_metadata`: a store that keeps outlines reads them.
    pub fn new(takes_metadata: bool) -> Self {
        Self { takes_metadata, next: Page { limit: FIRST, is_metadata: false }, has_begun: false, last: 0 }
    }

    pub fn next(&self) -> Page {
        self.next
    }

    /// It was too long. `false`: no shorter one can be asked for.
    pub fn too_long(&mut self) -> bool {
        let Page { limit, is_metadata } = self.next;
        if limit == 1 {
            return false;
        }
        if is_metadata || !self.takes_metadata {
            self.next.limit = (limit / 4).max(1);
        } else {
            self.ask_for_metadata(limit / 4);
        }
        true
    }

    /// The server gives no metadata: pages of whole objects become shorter instead. `false`: it was asked for none.
    pub fn refused(&mut self) -> bool {
        let was_asked = self.next.is_metadata;
        self.takes_metadata = false;
        self.next.is_metadata = false;
        was_asked
    }

    /// It came, and had so many bytes.
    pub fn came(&mut self, bytes: usize) {
        let Page { limit, is_metadata } = self.next;
        self.has_begun = true;
        if is_metadata {
            self.last = limit;
            self.next = Page { limit: PROBE, is_metadata: false };
        } else if self.last > 0 && bytes > BYTES / 2 {
            self.ask_for_metadata(0);
        } else {
            self.last = 0;
            if bytes < BYTES / 4 {
                self.next.limit = (limit * 2).min(MOST);
            }
        }
    }

    fn ask_for_metadata(&mut self, limit: u32) {
        let least = if self.has_begun { METADATA.0 } else { FIRST };
        let limit = limit.max(self.last * 2).clamp(least, METADATA.1);
        self.next = Page { limit, is_metadata: true };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists objects of these sizes: how many bytes were read, and how many of the objects whole.
    fn list(sizes: &[usize], pages: &mut Pages) -> (usize, usize) {
        let (mut at, mut read, mut whole) = (0, 0, 0);
        while at < sizes.len() {
            let page = pages.next();
            let of_page = &sizes[at..sizes.len().min(at + page.limit as usize)];
            let bytes = of_page.iter().map(|size| if page.is_metadata { 500 } else { *size }).sum::<usize>();
            read += bytes.min(page.bytes());
            if bytes > page.bytes() {
                assert!(pages.too_long());
                continue;
            }
            pages.came(bytes);
            at += of_page.len();
            whole += if page.is_metadata { 0 } else { of_page.len() };
        }
        (read, whole)
    }

    #[test]
    fn small_objects_are_listed_whole() {
        assert_eq!(list(&[2_000; 5_000], &mut Pages::new(true)), (10_000_000, 5_000));
        assert_eq!(list(&[20_000; 1_000], &mut Pages::new(false)).1, 1_000, "in shorter pages");
    }

    #[test]
    fn of_many_large_objects_a_sixteenth_is_read_and_what_follows_is_listed_whole() {
        let sizes = [vec![2_000; 1_000], vec![1 << 20; 500], vec![2_000; 5_000]].concat();
        let (read, whole) = list(&sizes, &mut Pages::new(true));
        assert!(read < 500 << 20 >> 4, "{read}");
        assert!(whole > 5_500, "{whole}");
    }

    #[test]
    fn large_objects_of_many_tenants_cost_a_page_each() {
        let one = [vec![1 << 20; 25], vec![2_000; 200]].concat();
        let (read, whole) = list(&one.repeat(20), &mut Pages::new(true));
        assert!(read < 20 * 2 * BYTES, "{read}");
        assert!(whole > 20 * 200 / 2, "{whole}");
    }

    #[test]
    fn a_server_without_metadata_lists_whole_objects_in_shorter_pages() {
        let mut pages = Pages::new(true);
        assert!(!pages.refused() && pages.too_long());
        pages = Pages::new(true);
        assert!(pages.too_long() && pages.next().is_metadata && pages.refused());
        assert_eq!(list(&[1 << 20; 20], &mut pages).1, 20);
        assert!(!pages.next().is_metadata);
    }

    #[test]
    fn one_object_alone_may_be_too_long() {
        let mut pages = Pages::new(false);
        while pages.next().limit > 1 {
            assert!(pages.too_long());
        }
        assert!(!pages.too_long());
    }
}
