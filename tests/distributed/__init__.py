"""Do two and four processes compute what one computes, and does every rank end when one of them fails?"""
