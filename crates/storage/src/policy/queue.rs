//! Slab of weighed nodes, and the doubly linked queues that run through it by index.
//!
//! A node has `LINKS` pairs of links, so that it can be in `LINKS` queues at once; the parameter of a [`SlabQueue`]
//! selects its pair. A node is in at most one queue per pair; the policy tracks which.

use std::ops::{Index, IndexMut};

use super::EvictionSlot;

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct SlabLink {
    previous: u32,
    next: u32,
}

const UNLINKED: SlabLink = SlabLink { previous: NIL, next: NIL };

#[derive(Debug)]
struct SlabNode<T, const LINKS: usize> {
    links: [SlabLink; LINKS],
    weight: u64,
    /// Stale in a free node: `T` is `Copy`, so nothing needs to be dropped.
    value: T,
}

/// Nodes by slot. Slots of removed nodes are reused; the others stay valid.
#[derive(Debug)]
pub(super) struct LinkedSlab<T, const LINKS: usize = 1> {
    nodes: Vec<SlabNode<T, LINKS>>,
    free: Vec<u32>,
}

impl<T: Copy, const LINKS: usize> LinkedSlab<T, LINKS> {
    pub(super) fn new() -> Self {
        Self { nodes: Vec::new(), free: Vec::new() }
    }

    /// Adds a node that is in no queue.
    pub(super) fn insert(&mut self, value: T, weight: u64) -> EvictionSlot {
        let node = SlabNode { links: [UNLINKED; LINKS], weight, value };

        if let Some(index) = self.free.pop() {
            self.nodes[index as usize] = node;
            return EvictionSlot(index);
        }

        // Four billion nodes would take over 100 GiB: the index cannot reach `NIL`.
        debug_assert!(self.nodes.len() < NIL as usize, "more nodes than slots");
        self.nodes.push(node);
        EvictionSlot((self.nodes.len() - 1) as u32)
    }

    /// Frees a node that has been removed from its queues.
    pub(super) fn remove(&mut self, slot: EvictionSlot) {
        self.free.push(slot.0);
    }

    pub(super) fn weight(&self, slot: EvictionSlot) -> u64 {
        self.nodes[slot.0 as usize].weight
    }

    /// Sets the weight of a node. Its queues need [`SlabQueue::reweigh`] as well.
    pub(super) fn set_weight(&mut self, slot: EvictionSlot, weight: u64) {
        self.nodes[slot.0 as usize].weight = weight;
    }

    fn link(&mut self, index: u32, link: usize) -> &mut SlabLink {
        &mut self.nodes[index as usize].links[link]
    }
}

impl<T, const LINKS: usize> Index<EvictionSlot> for LinkedSlab<T, LINKS> {
    type Output = T;

    fn index(&self, slot: EvictionSlot) -> &T {
        &self.nodes[slot.0 as usize].value
    }
}

impl<T, const LINKS: usize> IndexMut<EvictionSlot> for LinkedSlab<T, LINKS> {
    fn index_mut(&mut self, slot: EvictionSlot) -> &mut T {
        &mut self.nodes[slot.0 as usize].value
    }
}

/// A queue through the nodes of one [`LinkedSlab`], using the pair of links with index `LINK`.
#[derive(Debug)]
pub(super) struct SlabQueue<const LINK: usize = 0> {
    front: u32,
    back: u32,
    len: usize,
    weight: u64,
}

impl<const LINK: usize> SlabQueue<LINK> {
    pub(super) const fn new() -> Self {
        Self { front: NIL, back: NIL, len: 0, weight: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the sum of the weights of the nodes in the queue.
    pub(super) const fn weight(&self) -> u64 {
        self.weight
    }

    pub(super) const fn front(&self) -> Option<EvictionSlot> {
        to_slot(self.front)
    }

    /// Returns the next node towards the back.
    pub(super) fn next<T, const LINKS: usize>(
        &self,
        slab: &LinkedSlab<T, LINKS>,
        slot: EvictionSlot,
    ) -> Option<EvictionSlot> {
        to_slot(slab.nodes[slot.0 as usize].links[LINK].next)
    }

    pub(super) fn push_back<T: Copy, const LINKS: usize>(
        &mut self,
        slab: &mut LinkedSlab<T, LINKS>,
        slot: EvictionSlot,
    ) {
        *slab.link(slot.0, LINK) = SlabLink { previous: self.back, next: NIL };

        match self.back {
            NIL => self.front = slot.0,
            back => slab.link(back, LINK).next = slot.0,
        }

        self.back = slot.0;
        self.len += 1;
        self.weight += slab.weight(slot);
    }

    pub(super) fn push_front<T: Copy, const LINKS: usize>(
        &mut self,
        slab: &mut LinkedSlab<T, LINKS>,
        slot: EvictionSlot,
    ) {
        *slab.link(slot.0, LINK) = SlabLink { previous: NIL, next: self.front };

        match self.front {
            NIL => self.back = slot.0,
            front => slab.link(front, LINK).previous = slot.0,
        }

        self.front = slot.0;
        self.len += 1;
        self.weight += slab.weight(slot);
    }

    /// Unlinks a node, which must be in this queue. The node stays in the slab.
    pub(super) fn remove<T: Copy, const LINKS: usize>(
        &mut self,
        slab: &mut LinkedSlab<T, LINKS>,
        slot: EvictionSlot,
    ) {
        let SlabLink { previous, next } = std::mem::replace(slab.link(slot.0, LINK), UNLINKED);

        match previous {
            NIL => self.front = next,
            previous => slab.link(previous, LINK).next = next,
        }
        match next {
            NIL => self.back = previous,
            next => slab.link(next, LINK).previous = previous,
        }

        self.len -= 1;
        self.weight -= slab.weight(slot);
    }

    pub(super) fn move_to_back<T: Copy, const LINKS: usize>(
        &mut self,
        slab: &mut LinkedSlab<T, LINKS>,
        slot: EvictionSlot,
    ) {
        if self.back != slot.0 {
            self.remove(slab, slot);
            self.push_back(slab, slot);
        }
    }

    /// Changes the weight of a node that is in this queue and in no other.
    pub(super) fn resize<T: Copy, const LINKS: usize>(
        &mut self,
        slab: &mut LinkedSlab<T, LINKS>,
        slot: EvictionSlot,
        weight: u64,
    ) {
        self.reweigh(slab.weight(slot), weight);
        slab.set_weight(slot, weight);
    }

    /// Accounts for a node of this queue whose weight is about to change by [`LinkedSlab::set_weight`].
    pub(super) const fn reweigh(&mut self, old_weight: u64, new_weight: u64) {
        self.weight = self.weight - old_weight + new_weight;
    }
}

const fn to_slot(index: u32) -> Option<EvictionSlot> {
    if index == NIL { None } else { Some(EvictionSlot(index)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(slab: &LinkedSlab<char>, queue: &SlabQueue) -> String {
        std::iter::successors(queue.front(), |slot| queue.next(slab, *slot)).map(|slot| slab[slot]).collect()
    }

    #[test]
    fn nodes_leave_and_move_without_disturbing_the_order_of_others() {
        let mut slab: LinkedSlab<char> = LinkedSlab::new();
        let mut queue = SlabQueue::new();
        let slots: Vec<_> = "abcd".chars().map(|letter| slab.insert(letter, 10)).collect();
        for slot in &slots {
            queue.push_back(&mut slab, *slot);
        }

        queue.move_to_back(&mut slab, slots[0]);
        assert_eq!(order(&slab, &queue), "bcda");

        queue.remove(&mut slab, slots[2]);
        assert_eq!(order(&slab, &queue), "bda");

        queue.push_front(&mut slab, slots[2]);
        assert_eq!(order(&slab, &queue), "cbda");
        assert_eq!((queue.len(), queue.weight()), (4, 40));
    }

    #[test]
    fn a_freed_slot_is_reused_and_the_others_keep_their_values() {
        let mut slab: LinkedSlab<char> = LinkedSlab::new();
        let a = slab.insert('a', 1);
        let b = slab.insert('b', 1);

        slab.remove(a);
        let c = slab.insert('c', 1);

        assert_eq!(c, a);
        assert_eq!((slab[b], slab[c]), ('b', 'c'));
    }

    #[test]
    fn a_resized_node_changes_the_weight_of_its_queue() {
        let mut slab: LinkedSlab<char> = LinkedSlab::new();
        let mut queue: SlabQueue = SlabQueue::new();
        let slot = slab.insert('a', 5);
        queue.push_back(&mut slab, slot);

        queue.resize(&mut slab, slot, 7);
        assert_eq!(queue.weight(), 7);

        queue.remove(&mut slab, slot);
        assert_eq!((queue.weight(), queue.front()), (0, None));
    }
}
